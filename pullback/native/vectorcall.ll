; The entry: how a call from Python reaches a kernel without running any Python. One function of machine code for all kernels.
;
; It is the `vectorcall` of objects whose words, behind Python's own, are its address and that of a *descriptor*: a table that
; says what arguments a kernel takes, what results it has, and which descriptor is to be tried if the arguments are others. Where
; none fits, or there is anything around the call that descriptors do not know of (a trace that records, a named axis, a
; keyword), it calls the object's method `_long_call`, which does the same in Python.
;
; `entry.py` reads this text, in the short forms of `shorthand.py`, says where things lie ({names}), and fills in @table.

@table = global [{table} x ptr] zeroinitializer

; References to an object are counted in its first word. From Python 3.12 on its count is negative if it lives for ever.
define internal void @hold(ptr %thing) alwaysinline {
  %count = load {count}, ptr %thing
  %mortal = icmp sge {count} %count, 0
  %one = zext i1 %mortal to {count}
  %more = add {count} %count, %one
  store {count} %more, ptr %thing
  ret void
}
define internal void @drop(ptr %thing) alwaysinline {
  %count = load {count}, ptr %thing
  %stays = icmp sgt {count} %count, 1
  br i1 %stays, label %counted, label %last
counted:
  %less = sub {count} %count, 1
  store {count} %less, ptr %thing
  ret void
last:
  call void $Py_DecRef(ptr %thing)
  ret void
}

; What kernels poll: handlers of signals run, in the processor's usual mode; 1 if one of them raised.
define i32 @poll() {
  {unflushed}
  %gil = call i32 $PyGILState_Ensure()
  %rc = call i32 $PyErr_CheckSignals()
  call void $PyGILState_Release(i32 %gil)
  {unflush}
  %stop = icmp ne i32 %rc, 0
  %out = zext i1 %stop to i32
  ret i32 %out
}

; What those poll that hold the interpreter's lock, since they were thought to be short: other threads get their turn.
define i32 @poll_and_yield() {
  {unflushed}
  %rc = call i32 $PyErr_CheckSignals()
  %stop = icmp ne i32 %rc, 0
  br i1 %stop, label %out, label %yield
yield:
  %thread = call ptr $PyEval_SaveThread()
  call void $PyEval_RestoreThread(ptr %thread)
  br label %out
out:
  {unflush}
  %said = zext i1 %stop to i32
  ret i32 %said
}

; Calls that reach a kernel are counted. Python's lock is held.
define internal void @counted(ptr %d) alwaysinline {
  %calls = DESCRIPTOR(%d, calls)
  %before = load i64, ptr %calls
  %now = add i64 %before, 1
  store i64 %now, ptr %calls
  ret void
}

; What a context variable holds here, else the default that the partial function holds; null on an error.
define internal ptr @current(ptr %variable, ptr %default) alwaysinline {
  %at = alloca ptr
  %rc = call i32 $PyContextVar_Get(ptr %variable, ptr null, ptr %at)
  %failed = icmp slt i32 %rc, 0
  br i1 %failed, label %error, label %got
error:
  ret ptr null
got:
  %value = load ptr, ptr %at
  %unset = icmp eq ptr %value, null
  br i1 %unset, label %unheld, label %held
held:
  call void @drop(ptr %value)
  ret ptr %value
unheld:
  %bound = getelementptr i8, ptr %default, i64 {partial_args}
  %args = load ptr, ptr %bound
  %process.at = getelementptr i8, ptr %args, i64 {tuple_items}
  %process = load ptr, ptr %process.at
  ret ptr %process
}

define internal void @release(ptr %held, i64 %count) alwaysinline {
  br label %next
next:
  %i = phi i64 [0, %0], [%i.next, %go]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %go, label %out
go:
  %at = getelementptr ptr, ptr %held, i64 %i
  %one = load ptr, ptr %at
  call void @drop(ptr %one)
  %i.next = add i64 %i, 1
  br label %next
out:
  ret void
}

; Whether memory is in C order and aligned.
define internal i1 @plain(ptr %array) alwaysinline {
  %flags.at = getelementptr i8, ptr %array, i64 {array_flags}
  %flags = load i32, ptr %flags.at
  %both = and i32 %flags, 257
  %plain = icmp eq i32 %both, 257
  ret i1 %plain
}

; Whether an array of NumPy's is what a record of an input says.
define internal i1 @fits(ptr %array, ptr %record) alwaysinline {
  %dtype.at = getelementptr i8, ptr %array, i64 {array_dtype}
  %dtype = load ptr, ptr %dtype.at
  %wanted = INPUT(%record, given_dtype)
  %same = icmp eq ptr %dtype, %wanted
  br i1 %same, label %ranks, label %another
another:
  %taken = icmp ne ptr %wanted, null
  br i1 %taken, label %numbered, label %no
numbered: ; another object for one of C's numbers in the same order of bytes, as in arrays that were unpickled
  %number.at = getelementptr i8, ptr %dtype, i64 {dtype_number}
  %number = load i32, ptr %number.at
  %wanted.number.at = getelementptr i8, ptr %wanted, i64 {dtype_number}
  %wanted.number = load i32, ptr %wanted.number.at
  %order.at = getelementptr i8, ptr %dtype, i64 {dtype_order}
  %order = load i8, ptr %order.at
  %wanted.order.at = getelementptr i8, ptr %wanted, i64 {dtype_order}
  %wanted.order = load i8, ptr %wanted.order.at
  %same.number = icmp eq i32 %number, %wanted.number
  %same.order = icmp eq i8 %order, %wanted.order
  %plain.number = icmp ult i32 %number, {dtype_numbers}
  %equal.order = and i1 %same.number, %same.order
  %equal.dtype = and i1 %equal.order, %plain.number
  br i1 %equal.dtype, label %ranks, label %no
ranks:
  %ndim.at = getelementptr i8, ptr %array, i64 {array_ndim}
  %ndim32 = load i32, ptr %ndim.at
  %ndim = sext i32 %ndim32 to i64
  %rank = INPUT(%record, ndim, i64)
  %alike = icmp eq i64 %ndim, %rank
  br i1 %alike, label %sizes, label %no
sizes:
  %shape.at = getelementptr i8, ptr %array, i64 {array_shape}
  %shape = load ptr, ptr %shape.at
  %expected = INPUT(%record, shape)
  br label %size
size:
  %i = phi i64 [0, %sizes], [%i.next, %compare]
  %more = icmp ult i64 %i, %rank
  br i1 %more, label %compare, label %layout
compare:
  %a.at = getelementptr i64, ptr %shape, i64 %i
  %b.at = getelementptr i64, ptr %expected, i64 %i
  %a = load i64, ptr %a.at
  %b = load i64, ptr %b.at
  %i.next = add i64 %i, 1
  %equal = icmp eq i64 %a, %b
  br i1 %equal, label %size, label %no
layout:
  %plain = call i1 @plain(ptr %array)
  ret i1 %plain
no:
  ret i1 false
}

; Where an argument's elements are; null if it is another one than the record says, and @table on an error. `kept` gets what
; holds the elements. `room` are 8 bytes for a Python number.
define internal ptr @elements(ptr %given, ptr %record, ptr %room, ptr %kept) alwaysinline {
  store ptr %given, ptr %kept
  %class.at = getelementptr i8, ptr %given, i64 8
  %class = load ptr, ptr %class.at
  %ours = icmp eq ptr %class, $Array
  br i1 %ours, label %array, label %other
array:
  %type.at = getelementptr i8, ptr %given, i64 {our_type}
  %type = load ptr, ptr %type.at
  %wanted = INPUT(%record, type)
  %typed = icmp eq ptr %type, %wanted
  br i1 %typed, label %look, label %no
look:
  %first = phi i1 [true, %array], [false, %fetched]
  %host.at = getelementptr i8, ptr %given, i64 {our_host}
  %host = load ptr, ptr %host.at
  %unset = icmp eq ptr %host, null
  br i1 %unset, label %fetch, label %set
set:
  store ptr %host, ptr %kept
  %host.class.at = getelementptr i8, ptr %host, i64 8
  %host.class = load ptr, ptr %host.class.at
  %numpy = icmp eq ptr %host.class, $ndarray
  br i1 %numpy, label %memory, label %number
memory:
  %plain = call i1 @plain(ptr %host)
  br i1 %plain, label %pointed, label %fetch
pointed:
  %data.at = getelementptr i8, ptr %host, i64 {array_data}
  %data = load ptr, ptr %data.at
  ret ptr %data
number:
  %scalar = INPUT(%record, scalar)
  %counts = icmp eq ptr %host.class, %scalar
  br i1 %counts, label %value, label %fetch
value:
  %value.at = getelementptr i8, ptr %host, i64 {scalar_value}
  ret ptr %value.at
fetch:
  br i1 %first, label %fetching, label %no
fetching:
  %there = call ptr $PyObject_CallOneArg(ptr $fetch, ptr %given)
  %raised = icmp eq ptr %there, null
  br i1 %raised, label %error, label %fetched
fetched:
  call void @drop(ptr %there)
  %found = icmp eq ptr %there, $True
  br i1 %found, label %look, label %no
other:
  %foreign = icmp eq ptr %class, $ndarray
  br i1 %foreign, label %numpys, label %scalars
numpys:
  %fits = call i1 @fits(ptr %given, ptr %record)
  br i1 %fits, label %its, label %no
its:
  %its.data.at = getelementptr i8, ptr %given, i64 {array_data}
  %its.data = load ptr, ptr %its.data.at
  ret ptr %its.data
scalars:
  %given.scalar = INPUT(%record, given_scalar)
  %is.scalar = icmp eq ptr %class, %given.scalar
  br i1 %is.scalar, label %its.value, label %numbers
its.value:
  %its.value.at = getelementptr i8, ptr %given, i64 {scalar_value}
  ret ptr %its.value.at
numbers:
  %kind = INPUT(%record, number)
  %is.number = icmp eq ptr %class, %kind
  br i1 %is.number, label %convert, label %no
convert:
  %how = INPUT(%record, conversion, i64)
  switch i64 %how, label %no [
    i64 1, label %single i64 2, label %double i64 3, label %short i64 4, label %long i64 5, label %truth
  ]
single:
  %wide = call double $PyFloat_AsDouble(ptr %given)
  %narrow = fptrunc double %wide to float
  store float %narrow, ptr %room
  ; Infinite where a number overflows, of which the long call warns; infinity itself differs from itself by NaN
  %again = fpext float %narrow to double
  %apart = fsub double %wide, %again
  %square = fmul double %apart, %apart
  %overflows = fcmp oeq double %square, 0x7FF0000000000000
  br i1 %overflows, label %no, label %converted
double:
  %full = call double $PyFloat_AsDouble(ptr %given)
  store double %full, ptr %room
  ret ptr %room
short:
  %over.at = alloca i32
  %integer = call i64 $PyLong_AsLongLongAndOverflow(ptr %given, ptr %over.at)
  %over = load i32, ptr %over.at
  %low = trunc i64 %integer to i32
  %back = sext i32 %low to i64
  %kept.value = icmp eq i64 %back, %integer
  %inside = icmp eq i32 %over, 0
  %exact = and i1 %kept.value, %inside
  store i32 %low, ptr %room
  br i1 %exact, label %converted, label %no
long:
  %over2.at = alloca i32
  %integer2 = call i64 $PyLong_AsLongLongAndOverflow(ptr %given, ptr %over2.at)
  %over2 = load i32, ptr %over2.at
  %inside2 = icmp eq i32 %over2, 0
  store i64 %integer2, ptr %room
  br i1 %inside2, label %converted, label %no
truth:
  %is.true = icmp eq ptr %given, $True
  %byte = zext i1 %is.true to i8
  store i8 %byte, ptr %room
  br label %converted
converted:
  ret ptr %room
no:
  ret ptr null
error:
  ret ptr @table
}
define internal ptr @array(ptr %dtype, i32 %n, ptr %shape, ptr %data, i32 %flags) alwaysinline {
  call void @hold(ptr %dtype)
  %made = call ptr $PyArray_NewFromDescr(ptr $ndarray, ptr %dtype, i32 %n, ptr %shape, ptr null, ptr %data, i32 %flags, ptr null)
  ret ptr %made
}

; An array of NumPy's for a result: one of the last two, which the record keeps where they are small, if nothing else refers to it
; any more; else a new one.
define internal ptr @fresh(ptr %record) alwaysinline {
  %kept = OUTPUT(%record, kept)
  %keeps = icmp ne ptr %kept, null
  br i1 %keeps, label %keeping, label %new
new:
  %made = call ptr @allocated(ptr %record)
  ret ptr %made
keeping:
  %turn = OUTPUT(%record, turn, i64)
  %turn.next = xor i64 %turn, 1
  %turn.place = &OUTPUT(%record, turn)
  store i64 %turn.next, ptr %turn.place
  %place = getelementptr ptr, ptr %kept, i64 %turn
  %last = load ptr, ptr %place
  %references = load {count}, ptr %last
  %alone = icmp eq {count} %references, 1
  br i1 %alone, label %weakly, label %replace
weakly:
  %weak.at = getelementptr i8, ptr %last, i64 {array_weakrefs}
  %weak = load ptr, ptr %weak.at
  %free = icmp eq ptr %weak, null
  br i1 %free, label %again, label %replace
again:
  call void @hold(ptr %last)
  ret ptr %last
replace:
  %another = call ptr @allocated(ptr %record)
  %failed = icmp eq ptr %another, null
  br i1 %failed, label %error, label %keep
keep:
  call void @hold(ptr %another)
  %now = load ptr, ptr %place
  store ptr %another, ptr %place
  call void @drop(ptr %now)
  ret ptr %another
error:
  ret ptr null
}

; A new array of NumPy's for a result.
define internal ptr @allocated(ptr %record) {
  %dtype = OUTPUT(%record, dtype)
  %ndim64 = OUTPUT(%record, ndim, i64)
  %ndim = trunc i64 %ndim64 to i32
  %shape = OUTPUT(%record, shape)
  %bytes = OUTPUT(%record, bytes, i64)
  %large = icmp uge i64 %bytes, {shared_bytes}
  br i1 %large, label %shared, label %small
small:
  %made = call ptr @array(ptr %dtype, i32 %ndim, ptr %shape, ptr null, i32 0)
  ret ptr %made
shared:
  %size.at = alloca i64
  %size = add i64 %bytes, 64
  store i64 %size, ptr %size.at
  %memory = call ptr @array(ptr $bytes_dtype, i32 1, ptr %size.at, ptr null, i32 0)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %error, label %inside
inside:
  %data.at = getelementptr i8, ptr %memory, i64 {array_data}
  %data = load ptr, ptr %data.at
  %start = ptrtoint ptr %data to i64
  %past = add i64 %start, 63
  %aligned = and i64 %past, -64
  %shift = sub i64 %aligned, %start
  %begin = getelementptr i8, ptr %data, i64 %shift
  %view = call ptr @array(ptr %dtype, i32 %ndim, ptr %shape, ptr %begin, i32 1281)
  %lost = icmp eq ptr %view, null
  br i1 %lost, label %drop, label %based
drop:
  call void @drop(ptr %memory)
  ret ptr null
based:
  %rc = call i32 $PyArray_SetBaseObject(ptr %view, ptr %memory)
  %baseless = icmp slt i32 %rc, 0
  br i1 %baseless, label %undo, label %done
undo:
  call void @drop(ptr %view)
  ret ptr null
done:
  ret ptr %view
error:
  ret ptr null
}

; Run the kernel, with the processor's mode and the lock as they have to be: 0; 1 if it was stopped, 2 for lack of memory.
define internal i32 @execute(ptr %d, ptr %results, ptr %operands) alwaysinline {
  %size = DESCRIPTOR(%d, workspace, i64)
  %kernel = DESCRIPTOR(%d, kernel)
  %blocks = DESCRIPTOR(%d, blocks, i64)
  %share = DESCRIPTOR(%d, share)
  %releases = DESCRIPTOR(%d, releases, i64)
  %shared = DESCRIPTOR(%d, shared, i64)
  %outputs = DESCRIPTOR(%d, outputs, i64)
  %both = add i64 %size, %shared
  %large = icmp ugt i64 %both, {stack_bytes}
  br i1 %large, label %heap, label %stack
stack:
  %here = alloca i8, i64 %both, align 64
  br label %ready
heap:
  %more = add i64 %both, 64
  %memory = call ptr $PyMem_RawMalloc(i64 %more)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %exhausted, label %align
exhausted:
  ret i32 2
align:
  %start = ptrtoint ptr %memory to i64
  %past = add i64 %start, 63
  %even = and i64 %past, -64
  %shift = sub i64 %even, %start
  %there = getelementptr i8, ptr %memory, i64 %shift
  br label %ready
ready:
  %owned = phi ptr [null, %stack], [%memory, %align]
  %workspace = phi ptr [%here, %stack], [%there, %align]
  %common = getelementptr i8, ptr %workspace, i64 %size
  %common.at = getelementptr ptr, ptr %results, i64 %outputs
  store ptr %common, ptr %common.at
  %count.at = getelementptr ptr, ptr %common.at, i64 1
  store i64 0, ptr %count.at
  {flush}
  %lets.go = icmp ne i64 %releases, 0
  br i1 %lets.go, label %unlock, label %holding
holding:
  %rc.here = call i32 %kernel(ptr %results, ptr %operands, ptr %workspace, ptr @poll_and_yield, i64 0, i64 %blocks)
  br label %ran
unlock:
  %thread = call ptr $PyEval_SaveThread()
  %serial = icmp eq ptr %share, null
  br i1 %serial, label %alone, label %together
alone:
  %rc.alone = call i32 %kernel(ptr %results, ptr %operands, ptr %workspace, ptr @poll, i64 0, i64 %blocks)
  br label %lock
together:
  %rc.shared = call i32 %share(ptr %kernel, ptr %results, ptr %operands, ptr %workspace, i64 %size, ptr @poll, i64 %blocks)
  br label %lock
lock:
  %rc.free = phi i32 [%rc.alone, %alone], [%rc.shared, %together]
  call void $PyEval_RestoreThread(ptr %thread)
  br label %ran
ran:
  %rc = phi i32 [%rc.here, %holding], [%rc.free, %lock]
  {unflush}
  call void $PyMem_RawFree(ptr %owned)
  ret i32 %rc
}

; Have the Arrays among a call's donated arguments give up their memory, as `Array.delete` does: 0, or -1 on an error. One that
; something refers to weakly may be a constant, and one that has been on an asynchronous device holds more: Python looks at these.
define internal i32 @forget(ptr %d, ptr %args) alwaysinline {
  %count = DESCRIPTOR(%d, donations, i64)
  %places = DESCRIPTOR(%d, donated)
  br label %next
next:
  %i = phi i64 [0, %0], [%i.next, %forgotten]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %out
look:
  %i.next = add i64 %i, 1
  %place.at = getelementptr i64, ptr %places, i64 %i
  %place = load i64, ptr %place.at
  %given.at = getelementptr ptr, ptr %args, i64 %place
  %given = load ptr, ptr %given.at
  %class.at = getelementptr i8, ptr %given, i64 8
  %class = load ptr, ptr %class.at
  %ours = icmp eq ptr %class, $Array
  br i1 %ours, label %array, label %forgotten
array:
  %weak.at = getelementptr i8, ptr %given, i64 {our_weakrefs}
  %weak = load ptr, ptr %weak.at
  %later.at = getelementptr i8, ptr %given, i64 {our_later}
  %later = load ptr, ptr %later.at
  %unreferred = icmp eq ptr %weak, null
  %present = icmp eq ptr %later, null
  %simple = and i1 %unreferred, %present
  br i1 %simple, label %here, label %python
here:
  %host.at = getelementptr i8, ptr %given, i64 {our_host}
  %host = load ptr, ptr %host.at
  %buffer.at = getelementptr i8, ptr %given, i64 {our_buffer}
  %buffer = load ptr, ptr %buffer.at
  call void @hold(ptr $None)
  call void @hold(ptr $None)
  store ptr $None, ptr %host.at
  store ptr $None, ptr %buffer.at
  call void @drop(ptr %host)
  call void @drop(ptr %buffer)
  br label %forgotten
python:
  %said = call ptr $PyObject_CallOneArg(ptr $delete, ptr %given)
  %raised = icmp eq ptr %said, null
  br i1 %raised, label %error, label %deleted
deleted:
  call void @drop(ptr %said)
  br label %forgotten
forgotten:
  br label %next
error:
  ret i32 -1
out:
  ret i32 0
}

; The result of a call by one descriptor; @table if it is for other calls, null on an error.
define internal ptr @attempt(ptr %d, ptr %args, i64 %n) alwaysinline {
  %inputs = DESCRIPTOR(%d, inputs, i64)
  %count = icmp eq i64 %n, %inputs
  br i1 %count, label %begin, label %miss
begin:
  %constants = DESCRIPTOR(%d, constants, i64)
  %outputs = DESCRIPTOR(%d, outputs, i64)
  %records = DESCRIPTOR(%d, input_records)
  %out.records = DESCRIPTOR(%d, output_records)
  %pointers = DESCRIPTOR(%d, constant_pointers)
  %taken = add i64 %inputs, %constants
  %operands = alloca ptr, i64 %taken
  %held = alloca ptr, i64 %inputs
  %room = alloca i64, i64 %inputs
  %words = add i64 %outputs, 2
  %results = alloca ptr, i64 %words
  %arrays = alloca ptr, i64 %outputs
  br label %argument
argument:
  %i = phi i64 [0, %begin], [%i.next, %argued]
  %more = icmp ult i64 %i, %inputs
  br i1 %more, label %arguing, label %others
arguing:
  %given.at = getelementptr ptr, ptr %args, i64 %i
  %given = load ptr, ptr %given.at
  %record.offset = mul i64 %i, {input_bytes}
  %record = getelementptr i8, ptr %records, i64 %record.offset
  %room.at = getelementptr i64, ptr %room, i64 %i
  %held.at = getelementptr ptr, ptr %held, i64 %i
  %operand.at = getelementptr ptr, ptr %operands, i64 %i
  %data = call ptr @elements(ptr %given, ptr %record, ptr %room.at, ptr %held.at)
  store ptr %data, ptr %operand.at
  %differs = icmp eq ptr %data, null
  br i1 %differs, label %missed, label %found
missed:
  call void @release(ptr %held, i64 %i)
  br label %miss
found:
  %raised = icmp eq ptr %data, @table
  br i1 %raised, label %failed, label %argued
argued:
  %holds = load ptr, ptr %held.at
  call void @hold(ptr %holds)
  %i.next = add i64 %i, 1
  br label %argument
failed:
  call void @release(ptr %held, i64 %i)
  ret ptr null
others:
  %behind = getelementptr ptr, ptr %operands, i64 %inputs
  %constant.bytes = mul i64 %constants, 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %behind, ptr align 8 %pointers, i64 %constant.bytes, i1 false)
  br label %result
result:
  %j = phi i64 [0, %others], [%j.next, %made]
  %unmade = icmp ult i64 %j, %outputs
  br i1 %unmade, label %making, label %run
making:
  %out.offset = mul i64 %j, {output_bytes}
  %out.record = getelementptr i8, ptr %out.records, i64 %out.offset
  %array = call ptr @fresh(ptr %out.record)
  %nothing = icmp eq ptr %array, null
  br i1 %nothing, label %broken, label %made
made:
  %array.at = getelementptr ptr, ptr %arrays, i64 %j
  store ptr %array, ptr %array.at
  %target.at = getelementptr i8, ptr %array, i64 {array_data}
  %target = load ptr, ptr %target.at
  %result.at = getelementptr ptr, ptr %results, i64 %j
  store ptr %target, ptr %result.at
  %j.next = add i64 %j, 1
  br label %result
run:
  %rc = call i32 @execute(ptr %d, ptr %results, ptr %operands)
  call void @release(ptr %held, i64 %inputs)
  switch i32 %rc, label %stopped [i32 0, label %wrap i32 2, label %exhausted]
exhausted:
  %no.memory = call ptr $PyErr_NoMemory()
  br label %spoiled
stopped:
  %said = call ptr $PyErr_Occurred()
  %unsaid = icmp eq ptr %said, null
  br i1 %unsaid, label %say, label %spoiled
say:
  call void $PyErr_SetNone(ptr $KeyboardInterrupt)
  br label %spoiled
spoiled:
  call void @release(ptr %arrays, i64 %outputs)
  ret ptr null
broken:
  call void @release(ptr %arrays, i64 %j)
  call void @release(ptr %held, i64 %inputs)
  ret ptr null
wrap:
  %makes.tuple = DESCRIPTOR(%d, makes_tuple, i64)
  %several = icmp ne i64 %makes.tuple, 0
  br i1 %several, label %tuple, label %one
one:
  %only.array = load ptr, ptr %arrays
  %only = call ptr @wrapped(ptr %out.records, ptr %only.array)
  %empty = icmp eq ptr %only, null
  br i1 %empty, label %lost, label %ended
tuple:
  %whole = call ptr $PyTuple_New(i64 %outputs)
  %unpacked = icmp eq ptr %whole, null
  br i1 %unpacked, label %spoiled, label %fill
fill:
  %k = phi i64 [0, %tuple], [%k.next, %filled]
  %unfilled = icmp ult i64 %k, %outputs
  br i1 %unfilled, label %filling, label %full
filling:
  %k.offset = mul i64 %k, {output_bytes}
  %k.record = getelementptr i8, ptr %out.records, i64 %k.offset
  %k.at = getelementptr ptr, ptr %arrays, i64 %k
  %k.array = load ptr, ptr %k.at
  %item = call ptr @wrapped(ptr %k.record, ptr %k.array)
  %unwrapped = icmp eq ptr %item, null
  br i1 %unwrapped, label %partial, label %filled
filled:
  %set = call i32 $PyTuple_SetItem(ptr %whole, i64 %k, ptr %item)
  %k.next = add i64 %k, 1
  br label %fill
partial:
  %rest.first = add i64 %k, 1
  %rest = getelementptr ptr, ptr %arrays, i64 %rest.first
  %rest.count = sub i64 %outputs, %rest.first
  call void @release(ptr %rest, i64 %rest.count)
  call void @drop(ptr %whole)
  ret ptr null
full:
  br label %ended
ended:
  %out = phi ptr [%only, %one], [%whole, %full]
  %kept = call i32 @forget(ptr %d, ptr %args)
  %complete = icmp eq i32 %kept, 0
  br i1 %complete, label %end, label %withdrawn
withdrawn:
  call void @drop(ptr %out)
  br label %lost
end:
  ret ptr %out
lost:
  ret ptr null
miss:
  ret ptr @table
}

; An Array of NumPy's, whose reference it takes over.
define internal ptr @wrapped(ptr %record, ptr %host) alwaysinline {
  %made = call ptr $PyType_GenericAlloc(ptr $Array, i64 0)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %drop, label %fill
drop:
  call void @drop(ptr %host)
  ret ptr null
fill:
  %type = OUTPUT(%record, type)
  call void @hold(ptr %type)
  call void @hold(ptr $None)
  %our.type = getelementptr i8, ptr %made, i64 {our_type}
  store ptr %type, ptr %our.type
  %host.at = getelementptr i8, ptr %made, i64 {our_host}
  store ptr %host, ptr %host.at
  %buffer.at = getelementptr i8, ptr %made, i64 {our_buffer}
  store ptr $None, ptr %buffer.at
  ret ptr %made
}

define internal ptr @long(ptr %self, ptr %args, i64 %n, ptr %names) noinline {
  %method = call ptr $PyObject_GetAttr(ptr %self, ptr $long_name)
  %missing = icmp eq ptr %method, null
  br i1 %missing, label %error, label %calling
calling:
  %answer = call ptr $PyObject_Vectorcall(ptr %method, ptr %args, i64 %n, ptr %names)
  call void @drop(ptr %method)
  ret ptr %answer
error:
  ret ptr null
}

define ptr @vectorcall(ptr %self, ptr %args, i64 %flagged, ptr %names) {
  %n = and i64 %flagged, 9223372036854775807
  %head.at = getelementptr i8, ptr %self, i64 {head}
  %head = load ptr, ptr %head.at
  %headless = icmp eq ptr %head, null
  %unnamed = icmp eq ptr %names, null
  %known = xor i1 %headless, true
  %likely = and i1 %known, %unnamed
  br i1 %likely, label %places, label %long
places:
  %several = load ptr, ptr $several
  %single = icmp eq ptr %several, $False
  br i1 %single, label %traces, label %long
traces:
  %trace = call ptr @current(ptr $staging, ptr $staging_default)
  %untraced = icmp eq ptr %trace, $None
  br i1 %untraced, label %named, label %tracing
tracing:
  %trace.error = icmp eq ptr %trace, null
  br i1 %trace.error, label %error, label %long
named:
  %axes.at = alloca ptr
  %rc = call i32 $PyContextVar_Get(ptr $axes, ptr null, ptr %axes.at)
  %axes.error = icmp slt i32 %rc, 0
  br i1 %axes.error, label %error, label %axes
axes:
  %around = load ptr, ptr %axes.at
  %unset = icmp eq ptr %around, null
  br i1 %unset, label %moded, label %within
within:
  call void @drop(ptr %around)
  br label %long
moded:
  %mode = call ptr @current(ptr $mode, ptr $mode_default)
  %mode.error = icmp eq ptr %mode, null
  br i1 %mode.error, label %error, label %keep
keep:
  %owner = DESCRIPTOR(%head, owner)
  call void @hold(ptr %owner)
  br label %try
try:
  %d = phi ptr [%head, %keep], [%d.next, %another]
  %d.mode = DESCRIPTOR(%d, mode)
  %mode.fits = icmp eq ptr %d.mode, %mode
  br i1 %mode.fits, label %attempting, label %other
attempting:
  %out = call ptr @attempt(ptr %d, ptr %args, i64 %n)
  %missed = icmp eq ptr %out, @table
  br i1 %missed, label %other, label %done
done:
  call void @counted(ptr %d)
  call void @drop(ptr %owner)
  ret ptr %out
other:
  %d.next = DESCRIPTOR(%d, next)
  %last = icmp eq ptr %d.next, null
  br i1 %last, label %leave, label %another
another:
  br label %try
leave:
  call void @drop(ptr %owner)
  br label %long
long:
  %answer = call ptr @long(ptr %self, ptr %args, i64 %n, ptr %names)
  ret ptr %answer
error:
  ret ptr null
}


define ptr @direct(ptr %self, ptr %args, i64 %flagged, ptr %names) {
  %n = and i64 %flagged, 9223372036854775807
  %head.at = getelementptr i8, ptr %self, i64 {head}
  %head = load ptr, ptr %head.at
  %owner = DESCRIPTOR(%head, owner)
  call void @hold(ptr %owner)
  %out = call ptr @attempt(ptr %head, ptr %args, i64 %n)
  %missed = icmp eq ptr %out, @table
  br i1 %missed, label %leave, label %done
done:
  call void @counted(ptr %head)
  call void @drop(ptr %owner)
  ret ptr %out
leave:
  call void @drop(ptr %owner)
  br label %long
long:
  %answer = call ptr @long(ptr %self, ptr %args, i64 %n, ptr %names)
  ret ptr %answer
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
{modes}
