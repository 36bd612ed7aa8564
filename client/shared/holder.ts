/** Access to the process that currently runs the shared master (the holder). */

import type { MasterConfig } from '#config';
import { type Master, MasterError } from '#master';
import type { Connection } from '../connection.ts';
import type { ReachedMaster } from '../fail-over.ts';
import { callerOf, type MethodCaller, type NamedMethod } from '../rpc-client.ts';

/** Returns the properties of the shared master that do not depend on which process runs it. */
function sharedBy({
  jobCache,
}: MasterConfig): Pick<ReachedMaster, 'jobs' | 'hasOthers' | 'onBreak'> {
  // A failed call does not show that another process runs the master. Only the lock on the store's
  // directory does.
  return { jobs: jobCache ? 'shared' : undefined, hasOthers: false, onBreak: () => {} };
}

/**
 * Returns an interface to the master of another process. Calls are sent to the local socket of that
 * master.
 */
export function remoteHolder(
  connection: Connection,
  end: AbortSignal,
  config: MasterConfig,
): ReachedMaster {
  return { caller: callerOf(connection), connection, end, ...sharedBy(config) };
}

/** Returns the master of this process. Calls to its extensions use its local socket. */
export function ownHolder(master: Master, connection: Connection, end: AbortSignal): ReachedMaster {
  return { caller: ownCaller(master), connection, end, ...sharedBy(master.config) };
}

const never = new AbortController().signal;

/**
 * Returns a caller that validates the parameters of each call, as a master does for calls over a
 * connection.
 */
function ownCaller(master: Master): MethodCaller {
  return {
    call: async (method, parameters) => {
      checkParameters(method, parameters);
      return method.row.invoke(master, parameters, never);
    },
    open: async (method, parameters, signal = never) => {
      checkParameters(method, parameters);
      const items = await method.row.invoke(master, parameters, signal);
      // The rows of streams in the RPC table return streams.
      return streamOfOwn(master, items as AsyncIterable<unknown>);
    },
  };
}

async function* streamOfOwn(
  master: Master,
  items: AsyncIterable<unknown>,
): AsyncGenerator<unknown, void, void> {
  yield* items;
  // When a master shuts down, its streams end without an error. Throw one, so that the stream
  // continues on the next master.
  await master.status();
}

/**
 * Validates the parameters of a call.
 * @throws MasterError ERR_ARGS
 */
function checkParameters({ name, row }: NamedMethod, parameters: object): void {
  const complaint = row.complaint(parameters);
  if (complaint !== undefined) throw new MasterError('ERR_ARGS', `${name}: ${complaint}`);
}
