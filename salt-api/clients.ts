/**
 * The clients of Salt's API, such as `local`, `runner` and `wheel`. A request that names any other
 * client is rejected [THREATS A-06].
 */

import type { WireMap, WireValue } from '#minion-protocol';
import type { AnswerBytes } from './answer-bytes.ts';
import type { BodyReader } from './body.ts';
import { type ApiContext, type Caller, userOwner } from './context.ts';
import { SaltApiError } from './errors.ts';
import { runRunner, runWheel, startRunner, startWheel } from './function-clients.ts';
import type { Lowstate, WordReader } from './lowstate.ts';
import { runBatch, runLocal, runSubset, startLocal } from './minion-clients.ts';

type RunClient = (
  caller: Caller,
  low: Lowstate,
  context: ApiContext,
  signal: AbortSignal,
  warnings: Set<string>,
  bytes: AnswerBytes,
) => Promise<readonly WireValue[]>;

const asList =
  (run: (...parameters: Parameters<RunClient>) => Promise<WireValue>): RunClient =>
  async (...parameters) => [await run(...parameters)];

const clients: ReadonlyMap<string, RunClient> = new Map<string, RunClient>([
  [
    'local',
    asList((caller, low, context, signal, warnings, bytes) =>
      runLocal(localClientDeps(caller, context, warnings, bytes), low, signal),
    ),
  ],
  [
    'local_async',
    asList((caller, low, context, _signal, warnings, bytes) =>
      startLocal(localClientDeps(caller, context, warnings, bytes), low),
    ),
  ],
  [
    'local_batch',
    (caller, low, context, signal, warnings, bytes) =>
      runBatch(localClientDeps(caller, context, warnings, bytes), low, signal),
  ],
  [
    'local_subset',
    asList((caller, low, context, signal, warnings, bytes) =>
      runSubset(localClientDeps(caller, context, warnings, bytes), low, signal),
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
    'client: must name a client that is served; GET / lists them',
  );
}

/**
 * Checks that a client is served, for an address that calls the functions of this client without
 * naming it.
 * @throws SaltApiError ERR_HTTP_CLIENT
 */
export function requireClient(
  { clients: served }: Pick<ApiContext, 'clients'>,
  name: string,
): void {
  if (served.has(name)) return;
  throw new SaltApiError(
    'ERR_HTTP_CLIENT',
    `the client ${name} is not served; GET / lists the clients that are`,
  );
}

/** Response to a request, which may have several commands. */
export class LowstateAnswer {
  readonly results: WireValue[] = [];
  readonly #warnings = new Set<string>();
  readonly #bytes: AnswerBytes;

  constructor(bytes: AnswerBytes) {
    this.#bytes = bytes;
  }

  /** Executes one command and adds its results to the response. */
  async execute(
    context: ApiContext,
    caller: Caller,
    low: Lowstate,
    signal: AbortSignal,
  ): Promise<void> {
    const client = checkClient(context, low);
    const run = clients.get(client);
    if (run === undefined) throw new SaltApiError('ERR_HTTP_CLIENT', 'unknown client');
    const results = await run(caller, low, context, signal, this.#warnings, this.#bytes);
    if (!client.startsWith('local')) this.#bytes.take(userOwner(caller), [...results]);
    this.results.push(...results);
  }

  /** Body of the response. It contains `warnings` if a command ran on only a part of its target. */
  get body(): WireMap {
    const { size } = this.#warnings;
    return { return: this.results, ...(size === 0 ? {} : { warnings: [...this.#warnings] }) };
  }
}

function functionClientDeps(
  caller: Caller,
  { options, nextJid, bodies }: ApiContext,
): Parameters<typeof runRunner>[0] {
  const { user, name } = caller;
  const timeout = options.runnerTimeoutSeconds;
  return { user, name, timeout, nextJid, readWords: wordReaderOf(caller, bodies) };
}

/** Returns the dependencies of `local` and the other clients that run commands on minions. */
export function localClientDeps(
  caller: Caller,
  { bodies }: ApiContext,
  warnings: Set<string>,
  bytes: AnswerBytes,
): Parameters<typeof runLocal>[0] {
  const hold = (value: WireValue): void => bytes.take(userOwner(caller), value);
  return { user: caller.user, readWords: wordReaderOf(caller, bodies), warnings, hold };
}

function wordReaderOf(caller: Caller, bodies: BodyReader): WordReader {
  return (words) => bodies.readWords(userOwner(caller), words);
}
