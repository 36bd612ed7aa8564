/** The process that holds the master now, as calls reach it, and how a call to it may break. */

import { type Connection, callerOf, type MethodCaller, type NamedMethod } from '../client/index.ts';
import { type Master, MasterError } from '../master/index.ts';
import { codeOf } from '../runtime/index.ts';

/** The process that holds the master: this one or another. */
export interface Holder {
  readonly caller: MethodCaller;
  /** Of its local socket. */
  readonly connection: Connection;
  /** Fires when it holds the master no longer. */
  readonly end: AbortSignal;
}

/** A call that ended because the holder did. */
export class BrokenCallError extends Error {
  /** Whether the holder may have carried it out, or begun to. */
  readonly wasSent: boolean;
  readonly holder: Holder;

  constructor(holder: Holder, wasSent: boolean, cause: unknown) {
    super('the process that held the master ended', { cause });
    this.name = new.target.name;
    this.holder = holder;
    this.wasSent = wasSent;
  }
}

/** Errors of a connection that was never made; EAGAIN: more wait for one than may. */
const unsentCodes: ReadonlySet<string | undefined> = new Set(['ECONNREFUSED', 'ENOENT', 'EAGAIN']);

/** What a call failed with: {@link BrokenCallError} where that was the end of the holder. */
export function breakOf(error: unknown, holder: Holder): unknown {
  switch (codeOf(error)) {
    case 'ERR_SOCKET': {
      const cause = error instanceof Error ? error.cause : undefined;
      return new BrokenCallError(holder, !unsentCodes.has(codeOf(cause)), error);
    }
    case 'ERR_MASTER_STOPPED':
    case 'ERR_STORE_CLOSED':
    case 'ERR_STORE_FENCED':
      return new BrokenCallError(holder, true, error);
    default:
      return error;
  }
}

/** Another process, by its local socket. */
export function remoteHolder(connection: Connection, end: AbortSignal): Holder {
  return { caller: callerOf(connection), connection, end };
}

/** The master of this process; its local socket is there for extensions. */
export function ownHolder(master: Master, connection: Connection, end: AbortSignal): Holder {
  return { caller: ownCaller(master), connection, end };
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
