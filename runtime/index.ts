/**
 * What every room needs of a server's runtime, once each: a mutex by key, budgets, what
 * waits for slow readers, worker threads with a deadline. Imports nothing of ours.
 */
export { Budget, type BudgetLimits } from './budget.ts';
export { KeyedMutex } from './keyed-mutex.ts';
export { type SendLimits, SendPool, SendQueue } from './send-queue.ts';
export { WorkerPool, WorkerPoolError, type WorkerPoolOptions } from './worker-pool.ts';
