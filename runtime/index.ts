/**
 * What every room needs of a server's runtime, once each: a mutex by key, budgets, what
 * waits for slow readers, worker threads with a deadline. Imports nothing of ours.
 */
export { Budget, type BudgetLimits } from './budget.ts';
export {
  ConnectionGuard,
  type ConnectionOwner,
  type GuardedConnection,
  type GuardLimits,
  type PortRules,
  peerAddress,
} from './connection-guard.ts';
export { descriptorLimit } from './descriptor-limit.ts';
export { KeyedMutex } from './keyed-mutex.ts';
export { MultiMap } from './multi-map.ts';
export { SendPool, SendQueue } from './send-queue.ts';
export { WorkerPool, WorkerPoolError, type WorkerPoolOptions } from './worker-pool.ts';
