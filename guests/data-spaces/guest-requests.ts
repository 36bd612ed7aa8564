/**
 * Handles requests of guests. A guest calls a runner through its minion, or sends an HTTPS request.
 * In both cases, the policy must have a rule for the action `runner` that permits the call for the
 * minion of the guest. The parameters of the request are the keyword arguments of the call.
 */

import Type from 'typebox';
import { BridgeError, httpProblemOf, parseForm } from '#heat-bridge';
import { AuditBursts, type ExtensionHost, type OpenExtension } from '#master';
import type { WireMap } from '#minion-protocol';
import { compileSchema, TokenBuckets } from '#runtime';
import { guestLimits } from '../limits.ts';
import type { AddressOf, PeerDirectory, PeerList } from '../peers/peers.ts';
import type { DataChecks, DataReceipt, DataValue, DataValues, ReadRequest } from './data-values.ts';

type MinionRunners = NonNullable<OpenExtension['minionRunners']>;

type MinionRunnerCall = Parameters<MinionRunners[string]>[0];

/** Names of the runners for minions. Rules of the action `runner` refer to them. */
export const guestRunners = {
  get: 'saltbridge_data.get',
  put: 'saltbridge_data.put',
  peers: 'saltbridge_peers.list',
} as const;

/** Maximum time that one request waits, in seconds. Clients repeat the request to wait longer. */
const maxWaitSeconds = 25;

const strict = { additionalProperties: false };
const Key = Type.String({ minLength: 1, maxLength: 200 });
const Wait = Type.Optional(Type.Number({ minimum: 0, maximum: 86_400 }));
const After = Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 47 }));
const isGet = compileSchema(Type.Object({ key: Key, wait: Wait, after: After }, strict));
const isPeers = compileSchema(Type.Object({ together: Type.Optional(Type.Boolean()) }, strict));
const isPut = compileSchema(Type.Object({ key: Key, value: Type.String() }, strict));

type HostOfGuests = Pick<ExtensionHost, 'audit' | 'decide' | 'logger' | 'now'>;

export interface GuestRequestsDeps {
  readonly host: HostOfGuests;
  readonly values: Pick<DataValues, 'read' | 'write'>;
  readonly peers: Pick<PeerDirectory, 'of' | 'projectOf'>;
  /** Returns a function that looks up the address from which a minion is connected. */
  readonly addresses: () => Promise<AddressOf>;
}

/**
 * Handles requests that guests send through their minion or over HTTPS: reads and writes of values,
 * and lists of peers.
 */
export class GuestRequests {
  readonly #host: HostOfGuests;
  readonly #values: GuestRequestsDeps['values'];
  readonly #peers: GuestRequestsDeps['peers'];
  readonly #addresses: GuestRequestsDeps['addresses'];
  readonly #writes = new TokenBuckets(guestLimits.writeRate);
  readonly #lists = new TokenBuckets(guestLimits.peerRate);
  readonly #listedPeers = new TokenBuckets(guestLimits.listedPeers);
  /** Combines repeated audit records, so that a guest cannot cause an unlimited number of them. */
  readonly #bursts: AuditBursts;

  constructor({ host, values, peers, addresses }: GuestRequestsDeps) {
    this.#host = host;
    this.#values = values;
    this.#peers = peers;
    this.#addresses = addresses;
    const limits = { ofSource: guestLimits.dataWrites, all: guestLimits.allDataWrites };
    this.#bursts = new AuditBursts({ audit: host.audit, now: host.now, limits });
  }

  /**
   * Returns the peers of a minion.
   * @throws BridgeError ERR_DATA_FORM, ERR_DATA_BUSY, ERR_ENROLL_UNKNOWN
   */
  async peers(minion: string, given: object = {}): Promise<PeerList> {
    const { together = false } = parseForm(isPeers, given, 'ERR_DATA_FORM', 'the request');
    requireRate(this.#lists, minion);
    const addressOf = await this.#addresses();
    const project = this.#peers.projectOf(minion) ?? '';
    if (!this.#listedPeers.has(project)) {
      const text =
        'the guests of this project listed too many peers within a short time; retry later';
      throw new BridgeError('ERR_DATA_BUSY', text);
    }
    const list = this.#peers.of(minion, addressOf, together);
    this.#listedPeers.take(project, list.peers.length);
    return list;
  }

  /**
   * Returns the peers of a minion for its pillar. These requests do not count toward the rate limit
   * of the guest, because any process of the guest can use up that limit.
   * @param max - maximum number of peers
   * @throws BridgeError ERR_ENROLL_UNKNOWN
   */
  async pillarPeers(minion: string, max: number): Promise<PeerList> {
    return this.#peers.of(minion, await this.#addresses(), false, max);
  }

  /**
   * Reads a value.
   * @throws BridgeError ERR_DATA_FORM, ERR_DATA_UNKNOWN, ERR_DATA_DENIED, ERR_DATA_BUSY,
   * ERR_DATA_TIMEOUT, ERR_DATA_ALTERED, ERR_DATA_UNAVAILABLE, ERR_DATA_VALUE; and the error of the
   * check
   */
  async get(
    minion: string,
    given: object,
    isPrivate: boolean,
    { requirePermission }: DataChecks = {},
  ): Promise<DataValue> {
    const { key, wait = 0, after } = parseForm(isGet, given, 'ERR_DATA_FORM', 'the request');
    const request: ReadRequest = {
      key,
      waitMs: Math.min(wait, maxWaitSeconds) * 1000,
      ...(after === undefined ? {} : { after }),
    };
    return this.#values.read({ minion, isPrivate, requirePermission }, request);
  }

  /**
   * Writes a value. For each minute, the audit log contains the first write of a value, and a
   * summary with the number of writes.
   * @throws BridgeError ERR_DATA_FORM, ERR_DATA_BUSY, ERR_DATA_UNKNOWN, ERR_DATA_DENIED,
   * ERR_DATA_VALUE, ERR_DATA_WRITTEN, ERR_DATA_QUOTA, ERR_DATA_ALTERED, ERR_DATA_UNAVAILABLE; and
   * the error of the check
   */
  async put(minion: string, given: object, checks: DataChecks = {}): Promise<DataReceipt> {
    const { key, value } = parseForm(isPut, given, 'ERR_DATA_FORM', 'the request');
    requireRate(this.#writes, minion);
    const receipt = await this.#values.write(minion, key, value, checks);
    const who = { kind: 'minion', name: minion } as const;
    const what = `${key} ${receipt.version}`;
    const entry = { who, action: 'data.put', what, outcome: 'done' } as const;
    this.#bursts.note(entry, minion, `${minion} ${key}`);
    return receipt;
  }

  /** Writes the pending summary records of repeated writes. */
  close(): void {
    this.#bursts.flush();
  }

  /**
   * Whether rules permit a minion to call a runner with these keyword arguments.
   * @param isRepeated - whether they have already permitted the same request, which then waited
   */
  permits(
    minion: string,
    fun: string,
    kwargs: Readonly<Record<string, string>>,
    isRepeated = false,
  ): boolean {
    const call = { fun, args: [], kwargs: new Map(Object.entries(kwargs)) };
    const subject = { kind: 'minion', id: minion } as const;
    const question = { subject, action: 'runner', resource: { call }, isRepeated } as const;
    return this.#host.decide(question).effect === 'allow';
  }

  /** Runners for minions. The master evaluates the policy before it calls a runner. */
  get runners(): MinionRunners {
    return {
      [guestRunners.get]: (call) =>
        this.#answer(async () => ({
          ...(await this.get(call.minion, keywordsOf(call), call.protocol >= 3, call)),
        })),
      [guestRunners.peers]: (call) =>
        this.#answer(async () => peersAsWire(await this.peers(call.minion, keywordsOf(call)))),
      [guestRunners.put]: (call) =>
        this.#answer(async () => ({ ...(await this.put(call.minion, keywordsOf(call), call)) })),
    };
  }

  /**
   * Returns the result of a request. If the request fails, returns a map with the error. The module
   * on the minion raises this error.
   */
  async #answer(work: () => Promise<WireMap>): Promise<WireMap> {
    try {
      return await work();
    } catch (error) {
      const { code, message } = httpProblemOf(error);
      if (code === 'ERR_INTERNAL')
        this.#host.logger.error(
          { err: error },
          'internal error while handling a request of a guest to its data space',
        );
      return { error: { code, message } };
    }
  }
}

/**
 * Counts a request of a minion toward its rate limit.
 * @throws BridgeError ERR_DATA_BUSY
 */
function requireRate(rates: TokenBuckets, minion: string): void {
  if (rates.tryTake(minion)) return;
  throw new BridgeError(
    'ERR_DATA_BUSY',
    'too many requests of this machine within a short time; retry later',
  );
}

/** Converts a list of peers to plain data that a response to a minion can contain. */
export function peersAsWire(list: PeerList): WireMap {
  return JSON.parse(JSON.stringify(list));
}

/**
 * Returns the keyword arguments of a call.
 * @throws BridgeError ERR_DATA_FORM for positional arguments
 */
function keywordsOf({ arg, kwarg }: MinionRunnerCall): object {
  if (arg.length === 0) return kwarg;
  throw new BridgeError(
    'ERR_DATA_FORM',
    'positional arguments are not supported; pass keyword arguments such as key=NAME',
  );
}
