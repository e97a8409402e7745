"""The server's side: one thread that keeps the arrays, fed by one thread a rank that listens.

Only the thread in `serve` or `final` touches arrays and rules, so requests are handled one at a
time, in the order in which they came; a listener only receives. Listeners are what lets a server
wait for any rank on every transport, and what notices a rank that ends.

May import: communicator, errors, transport, this folder.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import DdpLabError, RankLost
from ddp_lab.parallel.parameter_server import messages
from ddp_lab.parallel.parameter_server.consistency import APPLY, DROP, Progress
from ddp_lab.parallel.parameter_server.messages import Entry, Message, Report
from ddp_lab.parallel.parameter_server.store import Store
from ddp_lab.transport import header as headers
from ddp_lab.transport.base import NDArray


@dataclass
class Peer:
    """What a server knows of another rank: a worker, or another server."""

    rank: int
    is_worker: bool
    done: bool = False  # it has said that it needs nothing more until the end
    gone: bool = False  # it sends nothing more
    pull: Message | None = None  # a pull that may not be answered yet
    grads: dict[int, list[Entry]] = field(default_factory=dict)  # by step, until that is taken
    applied: int = 0  # of its gradients
    dropped: int = 0
    max_lead: int = 0  # the most steps of the slowest worker that its pulls missed
    wants_final: bool = False  # it has asked for the final parameters
    told_of_failure: bool = False  # before it asked
    got_final: bool = False
    share: list[Entry] | None = None  # of a server: its pieces at the end


class Server:
    """One server: what it keeps, who may go on, and what it knows of each other rank."""

    def __init__(self, comm: Communicator, store: Store, progress: Progress) -> None:
        self.report = Report()
        self._comm = comm
        self._store = store
        self._progress = progress
        self._peers = {
            rank: Peer(rank, rank in progress.steps)
            for rank in range(comm.size)
            if rank != comm.rank
        }
        self._workers = [peer for peer in self._peers.values() if peer.is_worker]
        self._servers = [peer for peer in self._peers.values() if not peer.is_worker]
        self._inbox: queue.SimpleQueue[tuple[int, NDArray | Exception]] = queue.SimpleQueue()
        self._listening = False
        self._failure: DdpLabError | None = None
        self._final: dict[str, Any] | None = None

    def serve(self) -> None:
        """Answer until every worker is done, or gone where the others can do without it."""
        if self._failure is not None:
            raise self._failure
        self._listen()
        while not all(p.done or p.gone for p in self._workers) or not self._knows_all_steps():
            self._handle(*self._next())
        for server in self._servers:  # from now on this rank may end, and nobody has lost it
            self._send(server.rank, Message(messages.DONE))
        if not any(worker.done for worker in self._workers):
            lost = min(self._progress.lost)
            self._fail(RankLost(f"serve: every worker is lost, rank {lost} among them.", lost))

    def _knows_all_steps(self) -> bool:
        return self._progress.decides or self._peers[0].done or self._peers[0].gone

    # Messages that arrive

    def _listen(self) -> None:
        """Start to receive from every other rank, once."""
        if not self._listening:
            self._listening = True
            for rank in self._peers:
                self._listen_to(rank)

    def _listen_to(self, rank: int) -> None:
        name = f"ddp_lab server {self._comm.rank} hears {rank}"
        args = (rank, headers.call_site())
        threading.Thread(target=self._receive, args=args, name=name, daemon=True).start()

    def _receive(self, src: int, site: bytes) -> None:
        """Receive until the last message: a thread that waits in torch must not outlive us."""
        headers.stand_at(site)
        while True:
            try:
                message: NDArray | Exception = self._comm.recv(src)
            except Exception as error:
                message = error
            self._inbox.put((src, message))
            if isinstance(message, Exception) or self._is_last(src, messages.kind_of(message)):
                return

    def _is_last(self, src: int, kind: int) -> bool:
        """Return whether a rank sends no more after this, unless it is told of a failure."""
        return kind == messages.SHARE or (kind == messages.FINAL and self._peers[src].is_worker)

    def _next(self) -> tuple[int, NDArray | Exception]:
        began = time.perf_counter()
        arrived = self._inbox.get()
        self.report.waited_s += time.perf_counter() - began
        return arrived

    def _handle(self, src: int, arrived: NDArray | Exception) -> None:
        """Do what a rank asked for, or what its loss means."""
        peer = self._peers[src]
        if isinstance(arrived, Exception):
            self._lose(peer, arrived)
        else:
            self._obey(peer, messages.unpack(arrived, self._store.pieces))
        self._take_steps()
        self._answer_pulls()

    def _obey(self, peer: Peer, message: Message) -> None:
        if message.kind == messages.PUSH:
            self._take_gradient(peer, message)
        elif message.kind == messages.PULL:
            peer.pull = message
        elif message.kind == messages.COMMIT:
            self._progress.commit(message.step, [int(w) for w in message.text.split()])
        elif message.kind == messages.DONE:
            self._progress.done(peer.rank)
            peer.done = True
            if peer.is_worker:
                self._answer(peer, messages.ACK)
        elif message.kind == messages.FINAL:
            peer.wants_final = True
            peer.told_of_failure |= bool(message.step)
        elif message.kind == messages.SHARE:
            peer.share = message.entries
        elif message.kind == messages.FAIL and self._failure is None:
            self._fail(messages.error_in(message))

    def _lose(self, peer: Peer, error: Exception) -> None:
        """Note that a rank sends nothing more.

        Raises:
            RankLost: the run cannot do without it.
        """
        peer.gone, peer.pull = True, None
        if not isinstance(error, RankLost):
            raise error
        rank = peer.rank
        if not peer.is_worker:
            if not peer.done and peer.share is None:
                self._fail(RankLost(f"parameter server: server {rank} is lost: {error}", rank))
        elif not self._progress.lose(rank) and self._failure is None:
            run = f"a {self._progress.consistency!r} run"
            text = f"parameter server: worker {rank} of {run} is lost: {error}"
            self._fail(RankLost(text, rank))

    # Gradients and pulls

    def _take_gradient(self, worker: Peer, message: Message) -> None:
        self.report.pushed += 1
        verdict = self._progress.push(worker.rank, message.step)
        if verdict == APPLY:
            self._store.apply([message.entries])
            self._count_applied(worker)
        elif verdict == DROP:
            self._count_dropped(worker)
        else:
            worker.grads[message.step] = message.entries

    def _count_applied(self, worker: Peer) -> None:
        worker.applied += 1
        self.report.applied += 1

    def _count_dropped(self, worker: Peer) -> None:
        worker.dropped += 1
        self.report.dropped += 1

    def _take_steps(self) -> None:
        """Take the synchronous steps that are complete."""
        while (complete := self._progress.take_step()) is not None:
            step, chosen, late = complete
            if self._progress.decides and self._progress.backups:
                commit = Message(messages.COMMIT, step, text=" ".join(map(str, chosen)))
                for server in self._servers:
                    self._send(server.rank, commit)
            self._store.apply([self._peers[worker].grads.pop(step) for worker in chosen])
            for worker in chosen:
                self._count_applied(self._peers[worker])
            for worker in late:
                del self._peers[worker].grads[step]
                self._count_dropped(self._peers[worker])
        for worker in self._progress.missing():
            if self._failure is None:
                text = f"parameter server: worker {worker} is lost in the middle of a push"
                self._fail(RankLost(text, worker))

    def _answer_pulls(self) -> None:
        """Answer the pulls that waited for the steps which have been taken."""
        for worker in self._workers:
            pull = worker.pull
            if pull is not None and self._progress.may_pull(pull.step):
                worker.pull = None
                lead = self._progress.lead(pull.step)
                worker.max_lead = max(worker.max_lead, lead)
                self.report.max_staleness = max(self.report.max_staleness, lead)
                is_sync = self._progress.consistency == "sync"
                step = self._progress.version if is_sync else pull.step
                entries = self._store.entries(entry.piece for entry in pull.entries)
                self._answer(worker, messages.PARAMS, entries, step)

    # The end

    def final(self) -> dict[str, Any]:
        """Return all parameters, once every rank that is left has asked for them too."""
        if self._final is None:
            self._listen()
            for server in self._servers:
                self._send(server.rank, Message(messages.FINAL))
            peers = self._peers.values()
            for peer in peers:
                peer.got_final = False
            while True:
                all_ask = all(peer.wants_final or peer.gone for peer in peers)
                if all_ask or self._failure is not None:  # until all ask a push may come, late
                    self._give_final()
                if all(peer.got_final or peer.gone for peer in peers) and all(
                    server.share is not None for server in self._servers
                ):
                    break
                self._handle(*self._next())
                self._check_servers()
            self._final = self._store.whole(e for s in self._servers for e in s.share or ())
        return dict(self._final)

    def _give_final(self) -> None:
        for peer in self._peers.values():
            if peer.wants_final and not peer.got_final:
                self._answer(peer, messages.SHARE, self._store.entries())
                peer.got_final = True

    def _check_servers(self) -> None:
        for server in self._servers:
            if server.gone and server.share is None:
                rank = server.rank
                error = RankLost(f"final: server {rank} is lost, and its arrays with it.", rank)
                if self._failure is None:  # it had served all, so that nobody has been told yet
                    self._fail(error)
                raise error

    def _fail(self, error: DdpLabError) -> None:
        """Tell every rank of the error, and raise it; those that asked for the end ask anew."""
        self._failure = error
        for peer in self._peers.values():
            peer.pull = None
            if peer.wants_final and not peer.told_of_failure:
                peer.wants_final = False
                if peer.is_worker:
                    self._listen_to(peer.rank)
            if not peer.gone:
                self._send(peer.rank, messages.failure(error))
        raise error

    def _answer(self, peer: Peer, kind: int, entries: Sequence[Entry] = (), step: int = 0) -> None:
        counts = (peer.applied, peer.dropped, peer.max_lead)
        self._send(peer.rank, Message(kind, step, list(entries), counts))

    def _send(self, rank: int, message: Message) -> None:
        packed = messages.pack(message)
        with contextlib.suppress(RankLost):  # the one who listens to it says so in its turn
            self._comm.send(packed, rank)
            self.report.bytes_sent += packed.nbytes
