/** One gate for all clients: a closed table [THREATS A-06]. */
import type { WireValue } from '../../minion-protocol/index.ts';
import type { ApiContext, Caller } from '../context.ts';
import { SaltApiError } from '../errors.ts';
import type { Lowstate } from '../lowstate.ts';
import { runRunner, runWheel, startRunner, startWheel } from './functions.ts';
import { runBatch, runLocal, runSubset, startLocal } from './local.ts';

type Run = (
  caller: Caller,
  low: Lowstate,
  context: ApiContext,
  signal: AbortSignal,
) => Promise<readonly WireValue[]>;

const one =
  (run: (...parameters: Parameters<Run>) => Promise<WireValue>): Run =>
  async (...parameters) => [await run(...parameters)];

const clients: ReadonlyMap<string, Run> = new Map<string, Run>([
  ['local', one(({ user }, low, { bodies }, signal) => runLocal({ user, bodies }, low, signal))],
  ['local_async', one(({ user }, low, { bodies }) => startLocal({ user, bodies }, low))],
  ['local_batch', ({ user }, low, { bodies }, signal) => runBatch({ user, bodies }, low, signal)],
  [
    'local_subset',
    one(({ user }, low, { bodies }, signal) => runSubset({ user, bodies }, low, signal)),
  ],
  ['runner', one((caller, low, context) => runRunner(functionParts(caller, context), low))],
  ['runner_async', one((caller, low, context) => startRunner(functionParts(caller, context), low))],
  ['wheel', one((caller, low, context) => runWheel(functionParts(caller, context), low))],
  ['wheel_async', one((caller, low, context) => startWheel(functionParts(caller, context), low))],
]);

/** Names of the clients there are; `ssh` is not one. */
export const clientNames: readonly string[] = [...clients.keys()];

/** A client that is served. @throws SaltApiError ERR_HTTP_CLIENT */
export function checkClient(context: ApiContext, { client }: Lowstate): string {
  // protection: unknown-clients
  if (typeof client === 'string' && context.clients.has(client)) return client;
  throw new SaltApiError(
    'ERR_HTTP_CLIENT',
    'expected one of the clients that are served as client; GET / lists them',
  );
}

/** Does one command. @returns the elements that it adds to the answer */
export async function execute(
  context: ApiContext,
  caller: Caller,
  low: Lowstate,
  signal: AbortSignal,
): Promise<readonly WireValue[]> {
  const run = clients.get(checkClient(context, low));
  if (run === undefined) throw new SaltApiError('ERR_HTTP_CLIENT', 'no such client');
  return run(caller, low, context, signal);
}

function functionParts(
  { user, name }: Caller,
  { options, nextJid, bodies }: ApiContext,
): Parameters<typeof runRunner>[0] {
  return { user, name, timeout: options.runnerTimeout, nextJid, bodies };
}
