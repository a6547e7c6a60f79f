"""The keeper of a world and what processes say to it: here threads stand for processes, and none of jaxlib's service runs."""

import contextlib
import json
import socket
import struct
import threading
import time

import pytest

from pullback.core.errors import Fenced, PeerLost, ProgramsDiffer, WorldError
from pullback.engine.backend import JointCall
from pullback.parallel import keeper, liveness, messages, rendezvous
from pullback.parallel.rendezvous import Place, find_place, listen, meet
from pullback.parallel.stopping import Stopping
from pullback.parallel.world import World, compare, initialize


class Running:
    """A keeper in a thread, and processes that are threads."""

    def __init__(self, count, timeout=20.0, heartbeat=20.0):
        self.listener = listen("127.0.0.1:0")
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.keeper = keeper.Keeper(self.listener, count, timeout, heartbeat)
        self.thread = threading.Thread(target=self.keeper.run, daemon=True)
        self.thread.start()
        self.count, self.timeout, self.links = count, timeout, []

    def world(self, rank, count=None, epoch=0, timeout=None):
        place = Place(self.address, rank, count or self.count, epoch)
        found = meet(place, 1, timeout or self.timeout, 20.0)
        world = World(place, found)
        self.links += [found.link, world.agreement]
        found.link.pushed = world.stopping.pushed
        return world

    def worlds(self):
        return self.in_threads([lambda rank=rank: self.world(rank) for rank in range(self.count)])

    @staticmethod
    def in_threads(functions):
        """What each function returns, or the error that it raises, in a thread of its own."""
        found = [None] * len(functions)

        def call(i):
            try:
                found[i] = functions[i]()
            except Exception as error:
                found[i] = error

        threads = [threading.Thread(target=call, args=(i,)) for i in range(len(functions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return found


@pytest.fixture
def start(monkeypatch):
    """Keepers that end with the test."""
    monkeypatch.setattr(keeper, "coordination_service", lambda address, count: None)
    made = []

    def start(*args, **options):
        made.append(Running(*args, **options))
        return made[-1]

    yield start
    for one in made:
        for link in one.links:
            link.close()
        one.keeper.epoch.until = 0.0
        one.thread.join(10)
        assert not one.thread.is_alive(), "the keeper ends after its processes"
        one.listener.close()


def texts(found):
    return [str(one) if isinstance(one, WorldError) else type(one).__name__ for one in found]


def test_all_come_and_know_of_each_other(start):
    worlds = start(4).worlds()
    assert [world.place.rank for world in worlds] == [0, 1, 2, 3]
    brought = Running.in_threads([lambda one=one: one.meet("names", b"x" * one.place.rank) for one in worlds])
    assert brought == [[b"", b"x", b"xx", b"xxx"]] * 4
    only = Running.in_threads([lambda one=one: one.meet("root", b"x" * one.place.rank, of=2) for one in worlds])
    assert only == [[b"xx"]] * 4


def test_the_missing_are_named(start):
    running = start(4, timeout=0.6)
    found = Running.in_threads([lambda: running.world(0), lambda: running.world(2)])
    assert texts(found) == ["Ranks 1, 3 did not come in 0.6 s."] * 2
    listen(running.address).close()  # which who tries again needs


def test_a_rank_taken_twice(start):
    running = start(2)
    first = threading.Thread(target=running.in_threads, args=([lambda: running.world(0)],))
    first.start()
    while 0 not in running.keeper.epoch.members:
        time.sleep(0.01)
    with pytest.raises(WorldError, match=r"Rank 0 is taken, by pid \d+ on "):
        running.world(0)
    assert isinstance(running.world(1), World), "who came first is not disturbed"
    first.join()


@pytest.mark.parametrize("name", ["pullback", "jaxlib", "Python", "byte order"])
def test_what_differs_is_named(start, monkeypatch, name):
    running, facts, seen = start(3), rendezvous.facts(), []
    monkeypatch.setattr(rendezvous, "facts", lambda: {**facts, **({name: "0.0.1"} if seen.append(0) or len(seen) == 2 else {})})
    found = texts(running.worlds())
    assert len(set(found)) == 1 and f"The processes differ in their {name}: rank 0 has" in found[0] and "has 0.0.1" in found[0]


def test_numbers_that_do_not_fit(start):
    running = start(2)
    with pytest.raises(WorldError, match="Rank 1 was started with 3 processes, this world with 2"):
        running.world(1, count=3)
    with pytest.raises(WorldError, match="Nobody answers"):
        running.world(0, timeout=0.1)


def test_wrong_addresses(start):
    with pytest.raises(WorldError, match=r"Nobody answers at 127.0.0.1:1 for 0.2 s .*See whether rank 0 is running"):
        meet(Place("127.0.0.1:1", 1, 2), 1, 0.2, 1.0)
    with pytest.raises(WorldError, match=r"There is no host 'no-such-host.invalid'"):
        meet(Place("no-such-host.invalid:80", 1, 2), 1, 0.2, 1.0)
    with pytest.raises(WorldError, match="is to listen at the coordinator's address"):
        listen(start(1).address)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4, b"", b"\0" * 64], ids=["http", "nothing", "zeros"])
def test_somebody_else_answers(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.sendall(answer)
                connection.recv(1000)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(WorldError, match=r"was reached, but (what answers there is no process|its connection ended)"):
            meet(Place(f"127.0.0.1:{server.getsockname()[1]}", 1, 2), 1, 2.0, 1.0)
        thread.join()


def test_a_keeper_survives_strangers(start):
    running = start(1)
    header = json.dumps({"greeting": messages.GREETING, "nonce": "ab", "secret": False}).encode()
    hello = json.dumps({"rank": "no number"}).encode()
    for sent in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 100,
        b"".join(struct.pack(">IQ", len(h), 0) + h for h in (header, hello)),
    ):
        with socket.create_connection(("127.0.0.1", running.listener.getsockname()[1])) as connection:
            with contextlib.suppress(OSError):  # the keeper may have hung up already
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(1000):
                    pass
    assert isinstance(running.world(0), World)


@pytest.mark.parametrize(
    "theirs, said",
    [("sesame", None), ("parsley", "the two ends have different secrets"), ("", "PULLBACK_SECRET is set at one end only")],
    ids=["same", "other", "none"],
)
def test_secrets(start, monkeypatch, theirs, said):
    monkeypatch.setenv("PULLBACK_SECRET", "sesame")
    running = start(1)
    monkeypatch.setenv("PULLBACK_SECRET", theirs)
    if said is None:
        world = running.world(0)
        world.link.ask({"op": "set", "key": "k", "overwrite": True}, b"value")
        assert world.link.ask({"op": "peek", "key": "k"})[1] == b"value"
    else:
        with pytest.raises(WorldError, match=said):
            running.world(0)


def test_a_message_that_was_changed_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends = [socket.create_connection(server.getsockname()), server.accept()[0]]
    made = Running.in_threads([lambda i=i: messages.Channel(ends[i], b"key", is_server=bool(i)) for i in range(2)])
    made[0].send({"op": "beat"}, b"body")
    assert made[1].receive() == ({"op": "beat"}, b"body")
    made[0]._sent -= 1  # as if the next message were the last one, played again
    made[0].send({"op": "beat"}, b"body")
    with pytest.raises(WorldError, match="without the secret, or changed"):
        made[1].receive()
    for end in made:
        end.close()


def test_values_by_keys(start):
    one, other = [world.link for world in start(2).worlds()]

    def put(link, key, value, overwrite=True):
        return link.ask({"op": "set", "key": key, "overwrite": overwrite}, value)

    assert one.ask({"op": "peek", "key": "k"})[0]["found"] is False
    put(one, "k", b"1")
    assert other.ask({"op": "peek", "key": "k"})[1] == b"1"
    assert put(other, "k", b"2", overwrite=False) == ({"id": 2, "taken": True}, b"1")
    put(other, "k", b"2")
    assert one.ask({"op": "get", "key": "k"})[1] == b"2"
    assert [one.ask({"op": "delete", "key": "k"})[0]["found"] for _ in range(2)] == [True, False]
    with pytest.raises(TimeoutError, match=r"Nobody has set the key 'k'. Waited for 0.1 s"):
        one.ask({"op": "get", "key": "k"}, timeout=0.1)
    waited = Running.in_threads([lambda: one.ask({"op": "get", "key": "later"}), lambda: put(other, "later", b"now")])
    assert waited[0][1] == b"now"
    assert put(one, "empty", b"") and other.ask({"op": "get", "key": "empty"})[1] == b""


def test_meetings_name_who_does_not_come(start):
    worlds = start(3).worlds()
    found = Running.in_threads([lambda one=one: one.meet("lunch", timeout=0.3) for one in worlds[:2]])
    assert [str(one) for one in found] == ["Rank 2 did not come to lunch. Waited for 0.3 s."] * 2
    different = Running.in_threads(
        [lambda one=one: one.agree("the colour", "red" if one.place.rank else "blue") for one in worlds]
    )
    assert all(isinstance(one, ProgramsDiffer) for one in different)
    assert str(different[0]) == "The processes differ in the colour: rank 0 has blue; rank 1 has red; rank 2 has red."
    assert Running.in_threads([lambda one=one: one.agree("the colour", "red") for one in worlds]) == [None] * 3
    assert compare("nothing", {}) is None


def test_who_is_interrupted_was_not_there(start, monkeypatch):
    worlds = start(2).worlds()
    link = worlds[0].link
    reply = liveness._Reply

    class Interrupted(reply):
        def __init__(self):
            super().__init__()
            self.come = self

        def wait(self, seconds):
            raise KeyboardInterrupt

    monkeypatch.setattr(liveness, "_Reply", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        worlds[0].meet("lunch")
    monkeypatch.setattr(liveness, "_Reply", reply)
    assert link.ask({"op": "peek", "key": "k"})[0]["found"] is False, "what came before has been heard"
    with pytest.raises(TimeoutError, match="Rank 0 did not come to lunch"):
        worlds[1].meet("lunch", timeout=0.1)
    assert Running.in_threads([lambda one=one: one.meet("lunch") for one in worlds]) == [[b"", b""]] * 2


def test_who_waits_at_a_meeting_says_for_whom(start, monkeypatch, capsys):
    monkeypatch.setattr(keeper, "TOLD_AFTER", 0.1)
    worlds = start(3).worlds()
    with pytest.raises(TimeoutError):
        worlds[1].meet("barrier 'x'", timeout=0.4)
    assert capsys.readouterr().err == "pullback: Rank 0 waits at barrier 'x', still for ranks 0, 2.\n"


def test_two_threads_of_a_process_meet_by_two_names(start):
    one, other = start(2).worlds()
    found = Running.in_threads([lambda: one.meet("lunch", timeout=1.0), lambda: one.meet("lunch", timeout=1.0)])
    assert sum("Two threads of rank 0 came to lunch" in str(each) for each in found) == 1
    calls = [lambda each=each, name=name: each.meet(name) for each in (one, other) for name in "ab"]
    assert Running.in_threads(calls) == [[b"", b""]] * 4


def test_who_ends_is_lost_at_once(start):
    worlds = start(3).worlds()

    def wait(world):
        with pytest.raises(PeerLost, match=r"Rank 1 is lost: its process \(pid \d+ on .*\) has ended") as caught:
            world.meet("a barrier")
        return caught.value.ranks

    def end():
        time.sleep(0.1)
        worlds[1].link.close()

    assert Running.in_threads([lambda: wait(worlds[0]), end, lambda: wait(worlds[2])])[::2] == [(1,), (1,)]
    with pytest.raises(PeerLost):
        worlds[0].link.check()
    worlds[0].link.ask({"op": "set", "key": "k", "overwrite": True}, b"still")
    assert worlds[2].link.ask({"op": "peek", "key": "k"})[1] == b"still", "what was kept can be read"
    with pytest.raises(PeerLost):
        worlds[2].link.ask({"op": "get", "key": "of the lost"})


def test_who_is_silent_is_lost_and_fenced(start):
    worlds = start(2, heartbeat=0.6).worlds()
    worlds[1].link._closed.set()  # its heartbeats stop, its connection stays
    with pytest.raises(PeerLost, match=r"Rank 1 is lost: no heartbeat came from it for 0.6 s"):
        worlds[0].meet("a barrier")
    while not worlds[1].link.losses.fenced:
        time.sleep(0.01)
    for call in (worlds[1].link.check, lambda: worlds[1].meet("a barrier")):
        with pytest.raises(Fenced, match="taken for lost"):
            call()


def test_who_has_finished_is_not_waited_for(start):
    worlds = start(2).worlds()
    leaving = threading.Thread(target=Running.in_threads, args=([lambda: worlds[1].meet(keeper.LEAVING)],))
    leaving.start()
    while not worlds[0].link.losses.leaving:
        time.sleep(0.01)
    with pytest.raises(WorldError, match="Rank 1 has finished, and will not come to a barrier"):
        worlds[0].meet("a barrier")
    worlds[0].link.losses.leaving[1] -= 100.0
    with pytest.raises(PeerLost, match="Rank 1 has finished, and takes no part in jit"):
        worlds[0].link.check_waiting("jit(f)")
    assert worlds[0].meet(keeper.LEAVING) == [b"", b""]
    leaving.join()


def test_a_smaller_world_forms_and_who_is_late_is_fenced(start):
    running = start(4)
    worlds = running.worlds()
    worlds[0].link.close()
    found = Running.in_threads([lambda one=one: one.link.ask({"op": "reform"}, timeout=0.5)[0] for one in worlds[1:3]])
    assert [(one["rank"], one["count"], one["epoch"]) for one in found] == [(0, 2, 1), (1, 2, 1)], "rank 3 did not ask"
    with pytest.raises(Fenced):
        worlds[3].link.ask({"op": "reform"}, timeout=0.5)
    again = Running.in_threads([lambda rank=rank: running.world(rank, 2, epoch=1) for rank in range(2)])
    assert Running.in_threads([lambda one=one: one.meet("hello") for one in again]) == [[b"", b""]] * 2
    with pytest.raises(Fenced, match="The world is in its form 1 now, and rank 3 comes from form 0"):
        running.world(3, 4)


def test_all_stop_before_the_same_step(start):
    worlds = start(3).worlds()

    def train(stopping: Stopping, first):
        for step in range(first, 10_000):
            if stopping.reached(step):
                return step
            if step == 40 and stopping is worlds[1].stopping:
                stopping.ask_all()
            time.sleep(0.0005 * (1 + worlds.index(next(one for one in worlds if one.stopping is stopping))))
        return None

    found = Running.in_threads([lambda one=one: train(one.stopping, 0) for one in worlds])
    assert len(set(found)) == 1 and found[0] > 40


ENVIRONMENTS = {
    "launch": {"PULLBACK_PROCESS_ID": "2", "PULLBACK_NUM_PROCESSES": "4", "PULLBACK_COORDINATOR": "h:1"},
    "slurm": {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "h[003-006,9],x", "SLURM_JOB_ID": "5"},
    "open mpi": {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "PULLBACK_COORDINATOR": "h:1"},
    "mpich": {"PMI_RANK": "2", "PMI_SIZE": "4", "PULLBACK_COORDINATOR": "h:1"},
    "kubernetes": {"JOB_COMPLETION_INDEX": "2", "PULLBACK_NUM_PROCESSES": "4", "PULLBACK_COORDINATOR": "h:1"},
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environments(name):
    address = "h003:61005" if name == "slurm" else "h:1"
    assert find_place(None, None, None, ENVIRONMENTS[name]) == Place(address, 2, 4)
    assert find_place("g:2", 3, 1, ENVIRONMENTS[name]) == Place("g:2", 1, 3), "arguments come first"


@pytest.mark.parametrize("nodes, first", [("n7", "n7"), ("a,b", "a"), ("n[7]-ib", "n7-ib"), ("n[01,04-9]", "n01")])
def test_first_host_of_a_slurm_step(nodes, first):
    assert rendezvous._slurm_address({"SLURM_STEP_NODELIST": nodes, "SLURM_JOB_ID": "0"}) == f"{first}:61000"


WRONG = [
    (None, None, None, {}, WorldError, "Which process is this"),
    (None, 2, 0, {}, WorldError, "Where is the coordinator"),
    ("h:1", 2, 2, {}, ValueError, "they are 2 and 2"),
    ("h:1", 0, 0, {}, ValueError, "they are 0 and 0"),
    ("h", 2, 0, {}, ValueError, "host:port"),
    ("h:70000", 2, 0, {}, ValueError, "host:port"),
    ("h:0", 2, 0, {}, ValueError, "Port 0"),
    ("h:1", None, None, {"PULLBACK_PROCESS_ID": "x", "PULLBACK_NUM_PROCESSES": "2"}, ValueError, "PULLBACK_PROCESS_ID .*'x'"),
    ("h:1", 2, None, {"SLURM_PROCID": "", "SLURM_STEP_NUM_TASKS": "2"}, ValueError, "SLURM_PROCID .*''"),
    ("h:1", "2", 0, {}, TypeError, "num_processes is of type int, not str"),
    ("h:1", 2.0, 0, {}, TypeError, "num_processes is of type int, not float"),
    ("h:1", 2, True, {}, TypeError, "process_id is of type int, not bool"),
    (b"h:1", 2, 0, {}, TypeError, "coordinator_address is of type str, not bytes"),
]


@pytest.mark.parametrize("address, count, rank, environment, kind, said", WRONG)
def test_what_is_missing_or_wrong(address, count, rank, environment, kind, said):
    with pytest.raises(kind, match=said):
        find_place(address, count, rank, environment)


@pytest.mark.parametrize("name", ["initialization_timeout", "heartbeat_timeout_seconds"])
@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), "5"])
def test_wrong_times(name, seconds):
    with pytest.raises(ValueError, match=f"{name} is a number of seconds above 0, not "):
        initialize("h:1", 2, 0, **{name: seconds})


def test_addresses():
    assert messages.split_address("[::1]:80") == ("::1", 80) and messages.join_address("::1", 80) == "[::1]:80"


# ---- agreement on what they run ----


def call_of(name, ranks, exchanges=True, values=()):
    return JointCall(name, name.encode(), tuple(ranks), exchanges, values, None)


def said_by(world, *calls):
    """What came of calls that a process makes one after the other."""
    found = []
    for call in calls:
        try:
            world.begin(call, lambda: None)
            found.append("")
        except ProgramsDiffer as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("count", [2, 3, 8, 9, 20])
def test_all_hear_of_one_that_differs(start, count):
    worlds, ranks = start(count).worlds(), range(count)
    same, other = call_of("same", ranks), call_of("other", ranks)

    def calls(rank):
        return lambda: said_by(worlds[rank], same, other if rank == count // 2 else same, same)

    found = Running.in_threads([calls(rank) for rank in ranks])
    assert all([one == found[0] for one in found]), found
    assert found[0][::2] == ["", ""] and f"; rank {count // 2} has other, at" in found[0][1]


PAIR = (0, 1)
QUIET, LOUD = call_of("quiet", PAIR, False), call_of("loud", PAIR)
DIFFERENCES = [
    ([QUIET, QUIET, LOUD], [QUIET, LOUD], 2, "rank 0 has quiet, at a line that is not known; rank 1 has loud"),
    ([QUIET, LOUD], [QUIET, LOUD], None, ""),
    (
        [QUIET, *[QUIET] * 65, LOUD],
        [QUIET, *[QUIET] * 66, LOUD],
        -1,
        "more than 64 calls ago. Now they run: ranks 0, 1 have loud",
    ),
    (
        [call_of("f", PAIR, values=(("f32[2]", b"a"),))],
        [call_of("f", PAIR, values=(("f32[2]", b"b"),))],
        0,
        "rank 0 has f32[2] with digest 61; rank 1 has f32[2] with digest 62. pb.distributed.broadcast",
    ),
    ([call_of("f", PAIR, values=(("i32[]", b"a"),))], [call_of("f", PAIR)], 0, "rank 1 has an array that lies on the mesh"),
]


@pytest.mark.parametrize("first, second, at, said", DIFFERENCES, ids=range(len(DIFFERENCES)))
def test_where_they_differ(start, first, second, at, said):
    one, other = start(2).worlds()
    found = Running.in_threads([lambda: said_by(one, *first), lambda: said_by(other, *second)])
    for texts in found:
        assert [text for text in texts if text] == ([] if at is None else [texts[at if texts is found[0] else -1]]), found
        assert said in "".join(texts)


def test_some_of_them_agree_meanwhile(start):
    worlds = start(3).worlds()
    pair, all_three = call_of("pair", (0, 2)), call_of("all", range(3))
    found = Running.in_threads(
        [
            lambda: said_by(worlds[0], pair, all_three, pair),
            lambda: said_by(worlds[1], all_three),
            lambda: said_by(worlds[2], pair, all_three, pair),
        ]
    )
    assert found == [[""] * 3, [""], [""] * 3]


def test_strangers_are_not_heard(start):
    one, other = start(2).worlds()
    port = one.agreement.listening.port
    with socket.create_connection(("127.0.0.1", port)) as stranger, socket.create_connection(("127.0.0.1", port)) as half:
        stranger.sendall(struct.pack(">I32s", 1, b"x" * 32) + bytes(200))
        half.sendall(b"ab")
        found = Running.in_threads([lambda: said_by(one, LOUD), lambda: said_by(other, LOUD)])
        stranger.settimeout(20)
        assert found == [[""], [""]] and stranger.recv(1) == b""


def test_who_is_lost_is_not_waited_for(start):
    one, other = start(2).worlds()
    other.link.close()
    with pytest.raises(PeerLost, match="Rank 1 is lost"):
        one.begin(LOUD, lambda: None)
