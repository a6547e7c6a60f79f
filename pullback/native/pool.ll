; The pool, of which `pool.py` tells; in the short forms of `shorthand.py`.

@table = global [{table} x ptr] zeroinitializer
@slots = global [{slot_words} x i64] zeroinitializer, align 128
@workers = global [{worker_words} x i64] zeroinitializer, align 128
{stops}
@stopping = private constant [{slots} x ptr] [{stop_names}]

; Do pieces of a slot's job until none is left. Without a workspace of its own a thread allocates one.
define internal void @help(ptr %slot, ptr %own, ptr %poll) {
  %ticket.at = &SLOT(%slot, ticket)
  %stop.at = &SLOT(%slot, stop)
  %done.at = &SLOT(%slot, done)
  br label %look
look:
  %ticket = load atomic i64, ptr %ticket.at acquire, align 8
  %taken = and i64 %ticket, 4095
  %all = lshr i64 %ticket, 12
  %pieces = and i64 %all, 4095
  %left = icmp ult i64 %taken, %pieces
  br i1 %left, label %take, label %out
take:
  %raised = add i64 %ticket, 1
  %swap = cmpxchg ptr %ticket.at, i64 %ticket, i64 %raised acq_rel monotonic
  %mine = extractvalue {i64, i1} %swap, 1
  br i1 %mine, label %begin, label %look
begin:
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %go = icmp eq i64 %stop, 0
  br i1 %go, label %prepare, label %did
prepare:
  %kernel = SLOT(%slot, kernel)
  %results = SLOT(%slot, results)
  %operands = SLOT(%slot, operands)
  %size = SLOT(%slot, size, i64)
  %blocks = SLOT(%slot, blocks, i64)
  %below = mul i64 %blocks, %taken
  %first = udiv i64 %below, %pieces
  %past = add i64 %below, %blocks
  %last = udiv i64 %past, %pieces
  %has = icmp ne ptr %own, null
  %wants = icmp eq i64 %size, 0
  %enough = or i1 %has, %wants
  br i1 %enough, label %run, label %allocate
allocate:
  %more = add i64 %size, 64
  %memory = call ptr $PyMem_RawMalloc(i64 %more)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %exhausted, label %align
exhausted:
  store atomic i64 2, ptr %stop.at monotonic, align 8
  br label %did
align:
  %start = ptrtoint ptr %memory to i64
  %over = add i64 %start, 63
  %even = and i64 %over, -64
  %shift = sub i64 %even, %start
  %there = getelementptr i8, ptr %memory, i64 %shift
  br label %run
run:
  %owned = phi ptr [null, %prepare], [%memory, %align]
  %workspace = phi ptr [%own, %prepare], [%there, %align]
  %rc = call i32 %kernel(ptr %results, ptr %operands, ptr %workspace, ptr %poll, i64 %first, i64 %last)
  call void $PyMem_RawFree(ptr %owned)
  %fine = icmp eq i32 %rc, 0
  br i1 %fine, label %did, label %stopped
stopped:
  store atomic i64 1, ptr %stop.at monotonic, align 8
  br label %did
did:
  %before = atomicrmw add ptr %done.at, i64 1 acq_rel
  br label %look
out:
  ret void
}

define i32 @share(ptr %kernel, ptr %results, ptr %operands, ptr %workspace, i64 %size, ptr %poll, i64 %blocks) {
  %workers = ptrtoint ptr $workers to i64
  br label %search
search:
  %i = phi i64 [0, %0], [%i.next, %next]
  %some = icmp ult i64 %i, {slots}
  br i1 %some, label %try, label %alone
try:
  %offset = mul i64 %i, {slot_bytes}
  %slot = getelementptr i8, ptr @slots, i64 %offset
  %busy.at = &SLOT(%slot, busy)
  %swap = cmpxchg ptr %busy.at, i64 0, i64 1 acq_rel monotonic
  %mine = extractvalue {i64, i1} %swap, 1
  br i1 %mine, label %post, label %next
next:
  %i.next = add i64 %i, 1
  br label %search
alone:
  %rc.alone = call i32 %kernel(ptr %results, ptr %operands, ptr %workspace, ptr %poll, i64 0, i64 %blocks)
  ret i32 %rc.alone
post:
  %kernel.at = &SLOT(%slot, kernel)
  store ptr %kernel, ptr %kernel.at
  %results.at = &SLOT(%slot, results)
  store ptr %results, ptr %results.at
  %operands.at = &SLOT(%slot, operands)
  store ptr %operands, ptr %operands.at
  %size.at = &SLOT(%slot, size)
  store i64 %size, ptr %size.at
  %blocks.at = &SLOT(%slot, blocks)
  store i64 %blocks, ptr %blocks.at
  %done.at = &SLOT(%slot, done)
  store atomic i64 0, ptr %done.at monotonic, align 8
  %stop.at = &SLOT(%slot, stop)
  store atomic i64 0, ptr %stop.at monotonic, align 8
  %threads = add i64 %workers, 1
  %wanted = mul i64 %threads, {pieces}
  %bounded = call i64 @llvm.umin.i64(i64 %wanted, i64 {max_pieces})
  %pieces = call i64 @llvm.umin.i64(i64 %bounded, i64 %blocks)
  %ticket.at = &SLOT(%slot, ticket)
  %old = load atomic i64, ptr %ticket.at monotonic, align 8
  %job = lshr i64 %old, 24
  %job.next = add i64 %job, 1
  %high = shl i64 %job.next, 24
  %middle = shl i64 %pieces, 12
  %ticket = or i64 %high, %middle
  store atomic i64 %ticket, ptr %ticket.at seq_cst, align 8
  %others = sub i64 %pieces, 1
  br label %wake
wake:
  %w = phi i64 [0, %post], [%w.next, %awake]
  %woken = phi i64 [0, %post], [%woken.next, %awake]
  %known = icmp ult i64 %w, %workers
  %useful = icmp ult i64 %woken, %others
  %on = and i1 %known, %useful
  br i1 %on, label %ask, label %work
ask:
  %worker.offset = mul i64 %w, {worker_bytes}
  %worker = getelementptr i8, ptr @workers, i64 %worker.offset
  %idle.at = &WORKER(%worker, idle)
  %idle.swap = cmpxchg ptr %idle.at, i64 1, i64 0 seq_cst monotonic
  %was.idle = extractvalue {i64, i1} %idle.swap, 1
  br i1 %was.idle, label %rouse, label %awake
rouse:
  %lock = WORKER(%worker, lock)
  call void $PyThread_release_lock(ptr %lock)
  br label %awake
awake:
  %one = zext i1 %was.idle to i64
  %woken.next = add i64 %woken, %one
  %w.next = add i64 %w, 1
  br label %wake
work:
  call void @help(ptr %slot, ptr %workspace, ptr %poll)
  br label %wait
wait:
  %turn = phi i64 [0, %work], [%turn.next, %pause], [%turn.next, %yield], [%turn.next, %signals], [%turn.next, %listen], [%turn.next, %stop]
  %turn.next = add i64 %turn, 1
  %done = load atomic i64, ptr %done.at acquire, align 8
  %finished = icmp eq i64 %done, %pieces
  br i1 %finished, label %free, label %idle
idle:
  %short = icmp ult i64 %turn, 1000
  br i1 %short, label %pause, label %long
pause:
  {pause}
  br label %wait
long:
  %rc.yield = call i32 $sched_yield()
  %part = and i64 %turn, 4095
  %ask.now = icmp eq i64 %part, 0
  br i1 %ask.now, label %signals, label %yield
yield:
  br label %wait
signals:
  %told = load atomic i64, ptr %stop.at monotonic, align 8
  %goes.on = icmp eq i64 %told, 0
  br i1 %goes.on, label %listen, label %wait
listen:
  %rc.poll = call i32 %poll()
  %heard = icmp ne i32 %rc.poll, 0
  br i1 %heard, label %stop, label %wait
stop:
  store atomic i64 1, ptr %stop.at monotonic, align 8
  br label %wait
free:
  %rc64 = load atomic i64, ptr %stop.at monotonic, align 8
  %rc = trunc i64 %rc64 to i32
  store atomic i64 0, ptr %busy.at release, align 8
  ret i32 %rc
}

; Whether some slot has a piece that nobody has taken.
define internal i1 @waiting() {
  br label %search
search:
  %i = phi i64 [0, %0], [%i.next, %look]
  %some = icmp ult i64 %i, {slots}
  br i1 %some, label %look, label %no
look:
  %offset = mul i64 %i, {slot_bytes}
  %slot = getelementptr i8, ptr @slots, i64 %offset
  %ticket.at = &SLOT(%slot, ticket)
  %ticket = load atomic i64, ptr %ticket.at seq_cst, align 8
  %taken = and i64 %ticket, 4095
  %all = lshr i64 %ticket, 12
  %pieces = and i64 %all, 4095
  %left = icmp ult i64 %taken, %pieces
  %i.next = add i64 %i, 1
  br i1 %left, label %yes, label %search
yes:
  ret i1 true
no:
  ret i1 false
}

; What a worker does, for ever.
define void @work(ptr %me) {
  {flush}
  %idle.at = &WORKER(%me, idle)
  br label %rest
rest:
  store atomic i64 1, ptr %idle.at seq_cst, align 8
  %missed = call i1 @waiting()
  br i1 %missed, label %claim, label %sleep
claim:
  %swap = cmpxchg ptr %idle.at, i64 1, i64 0 seq_cst monotonic
  %mine = extractvalue {i64, i1} %swap, 1
  br i1 %mine, label %serve, label %sleep
sleep:
  %lock = WORKER(%me, lock)
  %rc = call i32 $PyThread_acquire_lock(ptr %lock, i32 1)
  br label %serve
serve:
  br label %each
each:
  %i = phi i64 [0, %serve], [%i.next, %helping]
  %some = icmp ult i64 %i, {slots}
  br i1 %some, label %helping, label %rest
helping:
  %offset = mul i64 %i, {slot_bytes}
  %slot = getelementptr i8, ptr @slots, i64 %offset
  %poll.at = getelementptr ptr, ptr @stopping, i64 %i
  %poll = load ptr, ptr %poll.at
  call void @help(ptr %slot, ptr null, ptr %poll)
  %i.next = add i64 %i, 1
  br label %each
}

declare i64 @llvm.umin.i64(i64, i64)
{declarations}
{modes}
