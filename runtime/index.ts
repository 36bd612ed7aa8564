/**
 * What every room needs of a server's runtime, once each: a mutex by key, budgets, worker threads
 * with a deadline, directories and the errors of the file system. Imports nothing of ours.
 */
export { Budget, type BudgetLimits } from './budget.ts';
export { KeyedMutex } from './keyed-mutex.ts';
export { makeDirectory, makeDirectorySync } from './make-directory.ts';
export { RenewedFiles, type RenewedFilesOptions } from './renewed-files.ts';
export { describeSystemError, withFileInErrors } from './system-error.ts';
export { WorkerPool, WorkerPoolError, type WorkerPoolOptions } from './worker-pool.ts';
