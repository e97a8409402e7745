"""The pool of threads: parts of a job, taken one by one by whoever is free.

A caller leaves a job, a function and how many elements it has, wakes the pool's threads if they
sleep, and takes parts itself until none is left; a thread that comes late finds less to do, and
nobody waits for it. Threads wait and work in compiled code, without the interpreter's lock; one
that has found nothing to do for about a millisecond sleeps until the next job.

NumPy's OpenBLAS is told to give its parts of products to the same threads, so that two pools never
want the same core. A job that comes while another runs, from inside it or from another thread, is
done by its caller alone; a product, whose parts wait for each other, begins when the pool is free.

After a fork the child has none of these threads: it starts its own at its first job.

May import: engine; threads. Source: OpenBLAS's cblas.h, openblas_set_threads_callback_function.
"""

import contextvars
import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from ..arrays import threads
from . import engine

GRAIN = 2**13  # numbers, of which a thread should compute a multiple
WAITS = 1000  # times that a thread without work lets others run, before it sleeps
PARTS = 4  # of a job for each thread: a late thread takes fewer of them
_RUN = ctypes.CFUNCTYPE(None, engine.SIGNATURE, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)

_TEXT = """
@left = global i64 0, align 64      ; parts that nobody has taken yet
@done = global i64 0, align 64      ; parts that are done
@there = global i64 0, align 64     ; threads of the pool that have begun
@asleep = global i64 0, align 64    ; threads that sleep
@helpers = global i64 0, align 64   ; threads that may help; those numbered higher sleep
@busy = global i64 0, align 64      ; whether there is a job
@body = global ptr null, align 64   ; the job: void body(i64 lo, i64 hi, ptr table)
@table = global ptr null
@total = global i64 0
@step = global i64 0
@count = global i64 0
@lock = global [128 x i8] zeroinitializer, align 64
@work = global [128 x i8] zeroinitializer, align 64
%Products = type { ptr, i64, ptr, i32 }  ; what OpenBLAS calls, the bytes of a part, parts, a number

declare i32 @sched_yield()
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i64 @llvm.smin.i64(i64, i64)

define void @reset(i64 %lo, i64 %hi, ptr %unused) {
  store i64 0, ptr @left
  store i64 0, ptr @there
  store i64 0, ptr @asleep
  store i64 0, ptr @helpers
  store i64 0, ptr @busy
  %1 = call i32 @pthread_mutex_init(ptr @lock, ptr null)
  %2 = call i32 @pthread_cond_init(ptr @work, ptr null)
  ret void
}

define private void @take() {                       ; parts, until none is left
  br label %next
next:
  %left = atomicrmw sub ptr @left, i64 1 seq_cst
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %part, label %none
part:
  %body = load ptr, ptr @body
  %table = load ptr, ptr @table
  %total = load i64, ptr @total
  %step = load i64, ptr @step
  %count = load i64, ptr @count
  %i = sub i64 %count, %left
  %lo = mul i64 %i, %step
  %end = add i64 %lo, %step
  %hi = call i64 @llvm.smin.i64(i64 %end, i64 %total)
  call void %body(i64 %lo, i64 %hi, ptr %table)
  %1 = atomicrmw add ptr @done, i64 1 seq_cst
  br label %next
none:
  ret void
}

define private i1 @wanted(i64 %number) {            ; whether there are parts for this thread
  %left = load atomic i64, ptr @left seq_cst, align 8
  %some = icmp sgt i64 %left, 0
  %helpers = load atomic i64, ptr @helpers seq_cst, align 8
  %may = icmp slt i64 %number, %helpers
  %both = and i1 %some, %may
  ret i1 %both
}

define void @help(i64 %number, i64 %waits, ptr %unused) {  ; what each thread of the pool does
  %begun = atomicrmw add ptr @there, i64 1 seq_cst
  br label %wait
take:
  call void @take()
  br label %wait
wait:
  %waited = phi i64 [ 0, %0 ], [ 0, %take ], [ %more, %again ]
  %some = call i1 @wanted(i64 %number)
  br i1 %some, label %take, label %again
again:
  %1 = call i32 @sched_yield()
  %more = add i64 %waited, 1
  %long = icmp sge i64 %more, %waits
  br i1 %long, label %rest, label %wait
rest:
  %2 = call i32 @pthread_mutex_lock(ptr @lock)
  %3 = atomicrmw add ptr @asleep, i64 1 seq_cst
  br label %look
look:                                               ; after `asleep`, which callers look at
  %now = call i1 @wanted(i64 %number)
  br i1 %now, label %awake, label %sleep
sleep:
  %4 = call i32 @pthread_cond_wait(ptr @work, ptr @lock)
  br label %look
awake:
  %5 = atomicrmw sub ptr @asleep, i64 1 seq_cst
  %6 = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %take
}

define private i1 @begin() {                        ; whether the pool was free, and is the caller's
  %seen = cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst
  %free = extractvalue { i64, i1 } %seen, 1
  ret i1 %free
}

define void @limit(i64 %lo, i64 %helpers, ptr %unused) {   ; fewer threads, unless a job needs them
  %free = call i1 @begin()
  br i1 %free, label %set, label %end
set:
  store atomic i64 %helpers, ptr @helpers seq_cst, align 8
  store atomic i64 0, ptr @busy seq_cst, align 8
  br label %end
end:
  ret void
}

define private void @share(ptr %body, i64 %total, i64 %step, ptr %table) {
  %over = add i64 %total, %step
  %up = sub i64 %over, 1
  %count = sdiv i64 %up, %step
  store ptr %body, ptr @body
  store ptr %table, ptr @table
  store i64 %total, ptr @total
  store i64 %step, ptr @step
  store i64 %count, ptr @count
  store i64 0, ptr @done
  store atomic i64 %count, ptr @left seq_cst, align 8
  %asleep = load atomic i64, ptr @asleep seq_cst, align 8
  %some = icmp sgt i64 %asleep, 0
  br i1 %some, label %wake, label %work
wake:
  %1 = call i32 @pthread_mutex_lock(ptr @lock)
  %2 = call i32 @pthread_cond_broadcast(ptr @work)
  %3 = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %work
work:
  call void @take()
  br label %look
look:
  %done = load atomic i64, ptr @done seq_cst, align 8
  %all = icmp eq i64 %done, %count
  br i1 %all, label %end, label %again
again:
  %4 = call i32 @sched_yield()
  br label %look
end:
  store atomic i64 0, ptr @busy seq_cst, align 8
  ret void
}

define void @run(ptr %body, i64 %total, i64 %step, ptr %table) {
  %free = call i1 @begin()
  br i1 %free, label %share, label %alone
share:
  call void @share(ptr %body, i64 %total, i64 %step, ptr %table)
  ret void
alone:
  call void %body(i64 0, i64 %total, ptr %table)
  ret void
}

define private void @product(i64 %lo, i64 %hi, ptr %products) {
  %1 = getelementptr %Products, ptr %products, i32 0, i32 1
  %2 = getelementptr %Products, ptr %products, i32 0, i32 2
  %3 = getelementptr %Products, ptr %products, i32 0, i32 3
  %call = load ptr, ptr %products
  %bytes = load i64, ptr %1
  %first = load ptr, ptr %2
  %number = load i32, ptr %3
  %at = mul i64 %lo, %bytes                         ; one part: the step is 1
  %part = getelementptr i8, ptr %first, i64 %at
  %i = trunc i64 %lo to i32
  call void %call(i32 %i, ptr %part, i32 %number)
  ret void
}

define void @products(i32 %all, ptr %call, i32 %count, i64 %bytes, ptr %first, i32 %number) {
  %products = alloca %Products
  %1 = getelementptr %Products, ptr %products, i32 0, i32 1
  %2 = getelementptr %Products, ptr %products, i32 0, i32 2
  %3 = getelementptr %Products, ptr %products, i32 0, i32 3
  store ptr %call, ptr %products
  store i64 %bytes, ptr %1
  store ptr %first, ptr %2
  store i32 %number, ptr %3
  %total = zext i32 %count to i64
  br label %look
look:
  %free = call i1 @begin()
  br i1 %free, label %share, label %again
again:
  %4 = call i32 @sched_yield()
  br label %look
share:
  call void @share(ptr @product, i64 %total, i64 1, ptr %products)
  ret void
}
"""


class _Pool:
    """The compiled code above, and the threads that are in it.

    Attributes:
        run: `run(body, total, step, table)` calls `body` for parts of `step` elements.
        size: threads that may work, the caller's included.
    """

    def __init__(self) -> None:
        self._code = code = engine.Function(_TEXT, "help", lasting=False)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))  # threads are in it until the end
        self.run: Callable[..., None] = _RUN(code.address("run"))
        self._there = ctypes.c_int64.from_address(code.address("there"))
        self._helpers = ctypes.c_int64.from_address(code.address("helpers"))
        self._limit = engine.SIGNATURE(code.address("limit"))
        self.reset()
        threads.follow(self.resize)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        """Forget the threads, of which a forked child has none."""
        threads.share_products(None)
        engine.SIGNATURE(self._code.address("reset"))(0, 0, None)
        self._lock, self._started, self.size = threading.Lock(), 0, 1

    def resize(self, size: int) -> None:
        """Let `size` threads work; start those that are missing."""
        with self._lock:
            for number in range(self._started, size - 1):
                args = (number, WAITS, None)
                threading.Thread(target=self._code.call, args=args, daemon=True).start()
            self._started = max(self._started, size - 1)
            while self._there.value < self._started:  # a product may hold the lock they begin with
                time.sleep(0)
            if size > self.size:
                self._helpers.value = size - 1
            else:
                self._limit(0, size - 1, None)
            self.size = self._helpers.value + 1
            threads.share_products(self._code.address("products"))


@functools.cache
def _pool() -> _Pool:
    return _Pool()


def _parts(total: int, grain: int) -> tuple[_Pool, int]:
    """Return the pool and how many elements a part of a job has."""
    count, pool = threads.get_num_threads(), _pool()
    if pool.size != count:
        pool.resize(count)
    return pool, -(-total // (PARTS * count * grain)) * grain


def share(body: Callable[[int, int, Any], None], total: int, grain: int, table: bytes) -> None:
    """Let the threads call a compiled `body(lo, hi, table)` for parts that cover `total`.

    Args:
        body: of type `engine.SIGNATURE`.
        total: elements, or rows.
        grain: of which a part has a multiple; what is not worth a second thread.
    """
    if total <= grain or threads.get_num_threads() == 1:
        body(0, total, table)
        return
    pool, step = _parts(total, grain)
    pool.run(body, total, step, table)


def parallel_for(total: int, grain: int, body: Callable[[int, int], object]) -> None:
    """Let the threads call a Python function `body(lo, hi)` for parts that cover `total`.

    It should spend its time where the interpreter's lock is not held: in NumPy's calls on large
    arrays, or in kernels. Each of its products of matrices is computed by one thread. The first
    exception of a part is raised here, when all parts have ended.
    """
    if total <= grain or threads.get_num_threads() == 1 or not engine.available():
        body(0, total)
        return
    pool, step = _parts(total, grain)
    context = contextvars.copy_context()
    errors: list[BaseException] = []

    def part(lo: int, hi: int, _: object) -> None:
        try:
            if not errors:
                context.copy().run(body, lo, hi)  # with the caller's np.errstate, say
        except BaseException as error:
            errors.append(error)

    with threads.products_by_one():
        pool.run(engine.SIGNATURE(part), total, step, None)
    if errors:
        raise errors[0]
