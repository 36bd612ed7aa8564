/** The process that holds the master now, as calls reach it. */

import type { MasterConfig } from '#config';
import { type Master, MasterError } from '#master';
import type { Connection } from '../connection.ts';
import type { ReachedMaster } from '../fail-over.ts';
import { callerOf, type MethodCaller, type NamedMethod } from '../rpc-client.ts';

/** What all processes that share a master have in common. */
function sharedBy({
  jobCache,
}: MasterConfig): Pick<ReachedMaster, 'jobs' | 'hasOthers' | 'onBreak'> {
  // Whether another process holds it is seen at its lock, not by calls.
  return { jobs: jobCache ? 'shared' : undefined, hasOthers: false, onBreak: () => {} };
}

/** Another process, by its local socket. */
export function remoteHolder(
  connection: Connection,
  end: AbortSignal,
  config: MasterConfig,
): ReachedMaster {
  return { caller: callerOf(connection), connection, end, ...sharedBy(config) };
}

/** The master of this process; its local socket is there for extensions. */
export function ownHolder(master: Master, connection: Connection, end: AbortSignal): ReachedMaster {
  return { caller: ownCaller(master), connection, end, ...sharedBy(master.config) };
}

const never = new AbortController().signal;

/** As over a connection, each call is checked against its row. */
function ownCaller(master: Master): MethodCaller {
  return {
    call: async (method, parameters) => {
      checkParameters(method, parameters);
      return method.row.invoke(master, parameters, never);
    },
    open: async (method, parameters, signal = never) => {
      checkParameters(method, parameters);
      const items = await method.row.invoke(master, parameters, signal);
      // The rows of streams give streams.
      return streamOfOwn(master, items as AsyncIterable<unknown>);
    },
  };
}

async function* streamOfOwn(
  master: Master,
  items: AsyncIterable<unknown>,
): AsyncGenerator<unknown, void, void> {
  yield* items;
  // A master that closed itself ends its streams as if they were over.
  await master.status();
}

/** @throws MasterError ERR_ARGS */
function checkParameters({ name, row }: NamedMethod, parameters: object): void {
  const complaint = row.complaint(parameters);
  if (complaint !== undefined) throw new MasterError('ERR_ARGS', `${name}: ${complaint}`);
}
