import { hash } from 'node:crypto';
import type { Logger } from 'pino';
import type { LiveConfig } from '#config';
import {
  type AuthReplyContext,
  type AuthRequest,
  type ClearEnvelope,
  type Peer,
  packWire,
  parseAuthRequest,
  type WireMap,
} from '#minion-protocol';
import { addressOwner, type TokenBuckets } from '#runtime';
import type { PresentMinion } from '../api/index.ts';
import type { MasterContext } from '../context/index.ts';
import { type EventBus, tags } from '../events/index.ts';
import type { Auth } from './auth.ts';
import { decideKey, type KeyDecision } from './key-decision.ts';
import type { LastRequests } from './last-requests.ts';

/** Options of {@link SignIn}. */
export interface SignInOptions
  extends Pick<
      Auth,
      | 'autoAccept'
      | 'keys'
      | 'masterKeys'
      | 'masterKeySigner'
      | 'publishKey'
      | 'rsa'
      | 'sessions'
      | 'versions'
    >,
    Pick<MasterContext, 'counters' | 'meter'> {
  readonly bus: EventBus;
  /**
   * Rate limit of sign-ins. Sign-ins with known keys are limited per address and id, other sign-ins
   * per address.
   */
  readonly rate: TokenBuckets;
  readonly config: Pick<LiveConfig, 'current'>;
  /**
   * Returns the extensions' decision about an offered key. If the id has no key or a pending key,
   * `accept` and `deny` take precedence over the built-in rules.
   */
  readonly advice: KeyAcceptanceHook;
  /** Whether the option `max_minions` prevents the sign-in of an id. */
  readonly isFull: (id: string) => boolean;
  readonly log: Logger;
}

/** Key that a client offers for an id. The client has not proven that it has the private key. */
interface OfferedKey {
  readonly id: string;
  /** RSA public key in PEM format. The master has checked that the key can be used. */
  readonly publicKey: string;
  readonly address: string;
  /** `autosign_grains`, as the client states them. */
  readonly grains: WireMap;
}

/**
 * Function of an extension that decides about a key that a client offers for an id. `undefined`
 * leaves the decision to the built-in rules. `wait` has the same effect, unless a different key of
 * the id is pending. In that case, the client receives the reply for a pending key, and the offered
 * key is not stored.
 *
 * The master does not call the function if the offered key is already accepted for the id. It
 * ignores the result in open mode, and if the id has a rejected key or a different accepted key.
 * The function runs exclusively for the id, see {@link KeyLifecycle.exclusive}.
 */
export type KeyAcceptanceHook = (
  offered: OfferedKey,
) => Promise<'accept' | 'deny' | 'wait' | undefined>;

const badLoad = 'bad load';

/**
 * Handles `_auth` requests [WIRE 6]. All cheap checks precede RSA operations. All RSA operations
 * for a reply are one task of a worker thread.
 */
export class SignIn {
  readonly #options: SignInOptions;
  /**
   * Replies that are being computed, by digest of the request. Salt's clients repeat their request
   * while they wait, and a repetition gets the reply that is already being computed.
   */
  readonly #underWay = new Map<string, Promise<Uint8Array>>();

  constructor(options: SignInOptions) {
    this.#options = options;
  }

  /** Returns the packed reply to an `_auth` request. */
  async answer(envelope: ClearEnvelope, peer: Peer): Promise<Uint8Array> {
    const parsed = parseAuthRequest(envelope);
    if (parsed.ok) return this.#shared(parsed.request, peer);
    this.#options.counters.count(`auth-${parsed.code}`);
    this.#options.meter.authentications.add('malformed');
    if ('reply' in parsed) return parsed.reply;
    if (!this.#mayFail(peer)) return packWire(badLoad);
    return this.#refuse(parsed.refuse, false, peer);
  }

  #shared(request: AuthRequest, peer: Peer): Promise<Uint8Array> {
    // The reply contains the publish port of the transport that received the request.
    const mark = `${digestOf(request)} ${peer.publishPort}`;
    const same = this.#underWay.get(mark);
    if (same !== undefined) return same;
    const answer = this.#signIn(request, peer).finally(() => {
      this.#underWay.delete(mark);
    });
    this.#underWay.set(mark, answer);
    return answer;
  }

  async #signIn(request: AuthRequest, peer: Peer): Promise<Uint8Array> {
    const { counters, meter, keys, isFull } = this.#options;
    const { id } = request;
    if (!this.#permitsVersion(request, peer)) return packWire(badLoad);
    const mayAccept = this.#isAccepted(request);
    if (!(mayAccept ? this.#mayRepeat(peer, id) : this.#mayFail(peer))) {
      counters.count('auth-rate');
      meter.authentications.add('rate');
      return packWire(badLoad);
    }
    const needsCheck = !mayAccept && keys.takesId(id) && !isFull(id);
    const isUsable = needsCheck ? await this.#isUsable(request.pub, peer) : undefined;
    // Only the decision and the change of the key are exclusive for the id. RSA operations for a
    // stranger wait for others of the same address, and must not delay sign-ins of the minion.
    const reply = await keys.exclusive(id, () => this.#decide(request, peer, isUsable));
    return reply();
  }

  /**
   * Decides about the offered key, and applies the decision. Returns a function that computes the
   * reply.
   * @param checked - whether the offered key can be used; `undefined` if this was not checked
   */
  async #decide(
    request: AuthRequest,
    peer: Peer,
    checked: boolean | undefined,
  ): Promise<() => Promise<Uint8Array>> {
    const { counters, meter, log } = this.#options;
    const { id } = request;
    // The lowest version and the key of the id may have changed while the request waited.
    if (!this.#permitsVersion(request, peer)) return async () => packWire(badLoad);
    const mayAccept = this.#isAccepted(request);
    if (!mayAccept && !this.#options.keys.takesId(id)) {
      counters.count('auth-ERR_BAD_ID');
      meter.authentications.add('malformed');
      log.debug(
        { minion: id, remote: peer.address },
        'the id is not permitted for new minions (minion_ids)',
      );
      return () => this.#refuse(request, false, peer);
    }
    if (this.#options.isFull(id)) {
      meter.authentications.add('full');
      this.#emit({ result: false, act: 'full' }, request);
      return () => this.#refuse(request, 'full', peer);
    }
    if (!mayAccept && !(checked ?? (await this.#isUsable(request.pub, peer)))) {
      counters.count('auth-unusable-key');
      meter.authentications.add('unusable-key');
      return () => this.#refuse(request, false, peer);
    }
    const verdict = await this.#judge(request, peer, mayAccept);
    if (!(await this.#applyDecision(verdict, request, peer))) {
      counters.count('auth-pending-full');
      meter.authentications.add('pending-full');
      return () => this.#refuse(request, true, peer);
    }
    meter.authentications.add(verdict.outcome);
    this.#emit(verdict.event, request);
    log.debug({ minion: id, remote: peer.address, act: verdict.outcome }, 'sign-in');
    return verdict.outcome === 'accept'
      ? this.#accept(request, peer)
      : () => this.#refuse(request, verdict.ret, peer);
  }

  #permitsVersion({ id, version }: AuthRequest, { address }: Peer): boolean {
    const { versions, counters, meter } = this.#options;
    if (versions.permits(id, version, address)) return true;
    counters.count('auth-version');
    meter.authentications.add('version');
    return false;
  }

  #isAccepted({ id, pub }: AuthRequest): boolean {
    const known = this.#options.keys.get(id);
    return known?.state === 'accepted' && isSameText(known.pem, pub);
  }

  async #judge(
    { id, pub, autosignGrains = {} }: AuthRequest,
    { address }: Peer,
    isAccepted: boolean,
  ): Promise<KeyDecision> {
    const { keys, autoAccept, advice, config } = this.#options;
    const { openMode } = config.current;
    const offered = { id, publicKey: pub, address, grains: autosignGrains };
    const advised = isAccepted ? undefined : await advice(offered);
    const known = keys.get(id);
    const isUndecided = known === undefined || known.state === 'pending';
    const isDecided = advised === 'accept' || advised === 'deny';
    if (isUndecided && isDecided && !openMode) return verdicts[advised];
    const grains = new Map(Object.entries(autosignGrains));
    const auto = isUndecided ? await autoAccept.decide(id, grains) : 'pend';
    const verdict = decideKey({
      accepted: known?.state === 'accepted' ? known.pem : undefined,
      pending: known?.state === 'pending' ? known.pem : undefined,
      rejected: known?.state === 'rejected',
      offered: pub,
      autoreject: auto === 'reject',
      autosign: auto === 'accept',
      openMode,
    });
    const isBehindAnother = known?.state === 'pending' && verdict.outcome === 'denied';
    return isBehindAnother && advised === 'wait' ? verdicts.wait : verdict;
  }

  /**
   * Applies a decision about a key.
   * @returns `false` if the key cannot be stored because too many keys are pending
   */
  async #applyDecision(verdict: KeyDecision, request: AuthRequest, peer: Peer): Promise<boolean> {
    const { keys } = this.#options;
    const { id, pub } = request;
    switch (verdict.transition) {
      case 'none':
        return true;
      case 'store-accepted':
        await keys.acceptNew(id, pub);
        return true;
      case 'store-pending':
        return keys.pend(id, pub, peer.address);
      case 'store-rejected':
        await keys.rejectNew(id, pub);
        return true;
      case 'store-denied':
        await keys.deny(id, pub);
        return true;
      case 'pending-to-accepted':
        await keys.accept(id);
        return true;
      case 'pending-to-rejected':
        await keys.rejectNew(id, pub);
        return true;
    }
  }

  #isUsable(pem: string, { address }: Peer): Promise<boolean> {
    return this.#options.rsa.run({ kind: 'check-key', pem }, addressOwner(address));
  }

  /**
   * Reads the keys for the reply to an accepted sign-in, while no one can delete the key of the
   * minion. Returns a function that computes the reply.
   */
  async #accept(
    request: AuthRequest,
    { publishPort, address }: Peer,
  ): Promise<() => Promise<Uint8Array>> {
    const { masterKeys, publishKey, sessions, rsa } = this.#options;
    const session = await sessions.obtain(request.id);
    const { key, signature } = publishKey.current;
    return async () => {
      const pubSig = await this.#signMasterKey(request, address);
      return rsa.run(
        {
          kind: 'accept',
          request,
          material: {
            masterPrivate: masterKeys.privateKey,
            masterPublicPem: masterKeys.publicPem,
            publishPort,
            aes: key.text,
            session: session.text,
            x931Sig: signature,
            ...(pubSig === undefined ? {} : { pubSig }),
          },
        },
        addressOwner(address),
      );
    };
  }

  async #signMasterKey(request: AuthRequest, address: string): Promise<string | undefined> {
    const { masterKeySigner, masterKeys, rsa } = this.#options;
    if (masterKeySigner === undefined) return undefined;
    if (masterKeySigner.kind === 'signature') return masterKeySigner.signature;
    return rsa.run(
      {
        kind: 'sign-master-pub',
        signKey: masterKeySigner.keys.privateKey,
        publicPem: masterKeys.publicPem,
        algorithm: request.sigAlgo,
      },
      addressOwner(address),
    );
  }

  #refuse(
    context: AuthReplyContext,
    ret: boolean | 'full',
    { address }: Peer,
  ): Promise<Uint8Array> {
    const masterKey = this.#options.masterKeys.privateKey;
    return this.#options.rsa.run(
      { kind: 'refuse', context, ret, masterKey },
      addressOwner(address),
    );
  }

  #emit(
    event: KeyDecision['event'] | { readonly result: false; readonly act: 'full' },
    { id, pub }: AuthRequest,
  ): void {
    if (this.#options.config.current.authEvents)
      this.#options.bus.fire(tags.auth, { ...event, id, pub });
  }

  /**
   * Whether the rate limit of the sender's address permits a reply to a sign-in that will fail.
   * Without this limit, such sign-ins could cause any number of slow RSA operations.
   */
  #mayFail(peer: Peer): boolean {
    return this.#options.rate.tryTake(addressOwner(peer.address));
  }

  /**
   * Whether the master may reply to a sign-in with a known key. Each reply requires RSA operations,
   * and anyone can send a minion's public key. The rate limit applies per address and id, so
   * requests from other addresses do not affect the minion.
   */
  #mayRepeat(peer: Peer, id: string): boolean {
    return this.#options.rate.tryTake(JSON.stringify([addressOwner(peer.address), id]));
  }
}

/**
 * Decision about a key for each result of a {@link KeyAcceptanceHook}. An accepted key replaces a
 * pending key.
 */
const verdicts: Readonly<Record<'accept' | 'deny' | 'wait', KeyDecision>> = {
  accept: verdict('accept', true, 'store-accepted'),
  deny: verdict('denied', false, 'store-denied'),
  // The key is not stored, because an id can have only one pending key. The minion repeats its
  // request, until the extension can decide.
  wait: verdict('pend', true, 'none'),
};

function verdict(
  outcome: 'accept' | 'denied' | 'pend',
  ret: boolean,
  transition: KeyDecision['transition'],
): KeyDecision {
  return { outcome, ret, transition, event: { result: ret, act: outcome } };
}

/**
 * Whether two keys have the same text. The result only selects a rate limit. The decision whether
 * to accept a key compares normalised keys instead.
 */
function isSameText(stored: string, offered: string): boolean {
  return stored.trim() === offered.trim();
}

/** Returns a digest of a request. Requests with the same digest get the same reply. */
function digestOf(request: AuthRequest): string {
  const { id, nonce, pub, version, token, encAlgo, sigAlgo, autosignGrains } = request;
  const parts = [id, nonce, pub, version, token, encAlgo, sigAlgo, autosignGrains];
  const packed = packWire(parts.map((part) => part ?? null));
  return hash('sha256', packed, 'base64');
}

/** Options of the check for `max_minions`. */
export interface FullnessOptions {
  readonly config: Pick<LiveConfig, 'current'>;
  readonly lastRequests: Pick<LastRequests, 'size'>;
  readonly present: () => readonly PresentMinion[];
  readonly now: () => number;
}

/**
 * Maximum age of the cached number of connected minions, in milliseconds. When many minions sign in
 * together, the master does not count again for each of them.
 */
const countHoldsMs = 1000;

/**
 * Returns a function that checks whether `max_minions` prevents the sign-in of an id. An id is
 * rejected if more than `max_minions` minions are connected and the id is not one of them [WIRE
 * 6.2]. With `max_minions` 0, there is no limit.
 */
export function createFullnessCheck(options: FullnessOptions): (id: string) => boolean {
  const { config, lastRequests, present, now } = options;
  let connected: ReadonlySet<string> = new Set();
  let countedAt = Number.NEGATIVE_INFINITY;
  return (id) => {
    const { maxMinions } = config.current;
    // Only minions that have sent requests can be connected. If these are few, counting is
    // unnecessary.
    if (maxMinions === 0 || lastRequests.size <= maxMinions) return false;
    if (Math.abs(now() - countedAt) >= countHoldsMs) {
      // Any client can subscribe to a topic. So a minion that is present only because of a topic is
      // not counted.
      const counted = present().filter(({ by, isSure }) => isSure || by !== 'topic');
      connected = new Set(counted.map((minion) => minion.id));
      countedAt = now();
    }
    return connected.size > maxMinions && !connected.has(id);
  };
}
