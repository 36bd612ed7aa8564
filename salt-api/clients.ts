/**
 * The clients of Salt's API, such as `local`, `runner` and `wheel`. A request that names any other
 * client is rejected [THREATS A-06].
 */

import type { WireMap, WireValue } from '#minion-protocol';
import type { ApiContext, Caller } from './context.ts';
import { SaltApiError } from './errors.ts';
import { runRunner, runWheel, startRunner, startWheel } from './function-clients.ts';
import type { Lowstate } from './lowstate.ts';
import { runBatch, runLocal, runSubset, startLocal } from './minion-clients.ts';

type RunClient = (
  caller: Caller,
  low: Lowstate,
  context: ApiContext,
  signal: AbortSignal,
  warnings: Set<string>,
) => Promise<readonly WireValue[]>;

const asList =
  (run: (...parameters: Parameters<RunClient>) => Promise<WireValue>): RunClient =>
  async (...parameters) => [await run(...parameters)];

const clients: ReadonlyMap<string, RunClient> = new Map<string, RunClient>([
  [
    'local',
    asList(({ user }, low, { bodies }, signal, warnings) =>
      runLocal({ user, bodies, warnings }, low, signal),
    ),
  ],
  [
    'local_async',
    asList(({ user }, low, { bodies }, _signal, warnings) =>
      startLocal({ user, bodies, warnings }, low),
    ),
  ],
  [
    'local_batch',
    ({ user }, low, { bodies }, signal, warnings) =>
      runBatch({ user, bodies, warnings }, low, signal),
  ],
  [
    'local_subset',
    asList(({ user }, low, { bodies }, signal, warnings) =>
      runSubset({ user, bodies, warnings }, low, signal),
    ),
  ],
  ['runner', asList((caller, low, context) => runRunner(functionClientDeps(caller, context), low))],
  [
    'runner_async',
    asList((caller, low, context) => startRunner(functionClientDeps(caller, context), low)),
  ],
  ['wheel', asList((caller, low, context) => runWheel(functionClientDeps(caller, context), low))],
  [
    'wheel_async',
    asList((caller, low, context) => startWheel(functionClientDeps(caller, context), low)),
  ],
]);

/** Names of all clients that can be served. Salt's client `ssh` is not one of them. */
export const clientNames: readonly string[] = [...clients.keys()];

/**
 * Returns the client that a command names.
 * @throws SaltApiError ERR_HTTP_CLIENT if this client is not served
 */
export function checkClient(context: ApiContext, { client }: Lowstate): string {
  if (typeof client === 'string' && context.clients.has(client)) return client;
  throw new SaltApiError(
    'ERR_HTTP_CLIENT',
    'client: missing, or not served; GET / lists the clients',
  );
}

/** Response to a request, which may have several commands. */
export class LowstateAnswer {
  readonly results: WireValue[] = [];
  readonly #warnings = new Set<string>();

  /** Executes one command and adds its results to the response. */
  async execute(
    context: ApiContext,
    caller: Caller,
    low: Lowstate,
    signal: AbortSignal,
  ): Promise<void> {
    const run = clients.get(checkClient(context, low));
    if (run === undefined) throw new SaltApiError('ERR_HTTP_CLIENT', 'unknown client');
    this.results.push(...(await run(caller, low, context, signal, this.#warnings)));
  }

  /** Body of the response. It has `warnings` if a command did not apply to its whole target. */
  get body(): WireMap {
    const { size } = this.#warnings;
    return { return: this.results, ...(size === 0 ? {} : { warnings: [...this.#warnings] }) };
  }
}

function functionClientDeps(
  { user, name }: Caller,
  { options, nextJid, bodies }: ApiContext,
): Parameters<typeof runRunner>[0] {
  return { user, name, timeout: options.runnerTimeoutSeconds, nextJid, bodies };
}
