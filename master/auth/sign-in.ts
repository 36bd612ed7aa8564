import { createHash } from 'node:crypto';
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
import type { TokenBuckets } from '#runtime';
import type { PresentMinion } from '../api/index.ts';
import type { MasterContext } from '../context/index.ts';
import { type EventBus, tags } from '../events/index.ts';
import type { Auth } from './auth.ts';
import { decideKey, type KeyDecision } from './key-decision.ts';
import type { LastHeard } from './session-keys.ts';

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
  /** Sign-ins by address of ids that are unknown or fail, by address and id of known ones. */
  readonly rate: TokenBuckets;
  readonly config: Pick<LiveConfig, 'current'>;
  /** Asked of a key that is not the accepted one of its id, before the other rules. */
  readonly advice: KeyAcceptanceHook;
  /** Whether `max_minions` keeps an id out. */
  readonly isFull: (id: string) => boolean;
  readonly log: Logger;
}

/** A key that somebody shows under an id; nothing proves yet that it is his. */
interface OfferedKey {
  readonly id: string;
  /** PEM text of an RSA key that could be accepted. */
  readonly publicKey: string;
  readonly address: string;
  /** `autosign_grains`, as stated. */
  readonly grains: WireMap;
}

/**
 * Knows of keys what the master's own rules do not. `undefined`: nothing of this one; `wait`: one
 * that is shown while another key of the id waits is to wait as well. A rejected key stays rejected,
 * and one shown in place of an accepted key denied, whatever it says. Runs in the id's turn, see
 * {@link KeyLifecycle.exclusive}.
 */
export type KeyAcceptanceHook = (
  offered: OfferedKey,
) => Promise<'accept' | 'deny' | 'wait' | undefined>;

const badLoad = 'bad load';

/**
 * `_auth`: who are you [WIRE 6]. The key's state decides; every cheap check comes before any RSA,
 * and all RSA of one answer is one task of a worker thread.
 */
export class SignIn {
  readonly #options: SignInOptions;
  /** Answers being made, by digest of the request: Salt's clients repeat while they wait. */
  readonly #underWay = new Map<string, Promise<Uint8Array>>();

  constructor(options: SignInOptions) {
    this.#options = options;
  }

  /** The packed reply to an `_auth` request. */
  async answer(envelope: ClearEnvelope, peer: Peer): Promise<Uint8Array> {
    const parsed = parseAuthRequest(envelope);
    if (parsed.ok) return this.#shared(parsed.request, peer);
    this.#options.counters.count(`auth-${parsed.code}`);
    this.#options.meter.authentications.add('malformed');
    if ('reply' in parsed) return parsed.reply;
    if (!this.#mayFail(peer)) return packWire(badLoad);
    return this.#refuse(parsed.refuse, false);
  }

  #shared(request: AuthRequest, peer: Peer): Promise<Uint8Array> {
    // The answer names the publish port of the transport that was asked over.
    const mark = `${digestOf(request)} ${peer.publishPort}`;
    const same = this.#underWay.get(mark);
    if (same !== undefined) return same;
    // So that a key is judged and moved in one step.
    const answer = this.#options.keys
      .exclusive(request.id, () => this.#signIn(request, peer))
      .finally(() => {
        this.#underWay.delete(mark);
      });
    this.#underWay.set(mark, answer);
    return answer;
  }

  async #signIn(request: AuthRequest, peer: Peer): Promise<Uint8Array> {
    const { versions, counters, meter, log } = this.#options;
    const { id } = request;
    if (!versions.permits(id, request.version, peer.address)) {
      counters.count('auth-version');
      meter.authentications.add('version');
      return packWire(badLoad);
    }
    const known = this.#options.keys.get(id);
    const mayAccept = known?.state === 'accepted' && isSameText(known.pem, request.pub);
    if (!(mayAccept ? this.#mayRepeat(peer, id) : this.#mayFail(peer))) {
      counters.count('auth-rate');
      meter.authentications.add('rate');
      return packWire(badLoad);
    }
    if (!mayAccept && !this.#options.keys.takesId(id)) {
      counters.count('auth-ERR_BAD_ID');
      meter.authentications.add('malformed');
      log.debug({ minion: id, remote: peer.address }, 'no id for a new minion (minion_ids)');
      return this.#refuse(request, false);
    }
    if (this.#options.isFull(id)) {
      meter.authentications.add('full');
      this.#tell({ result: false, act: 'full' }, request);
      return this.#refuse(request, 'full');
    }
    if (!mayAccept && !(await this.#options.rsa.run({ kind: 'check-key', pem: request.pub }))) {
      counters.count('auth-unusable-key');
      meter.authentications.add('unusable-key');
      return this.#refuse(request, false);
    }
    const verdict = await this.#judge(request, peer, mayAccept);
    if (!(await this.#applyDecision(verdict, request, peer))) {
      counters.count('auth-pending-full');
      meter.authentications.add('pending-full');
      return this.#refuse(request, true);
    }
    meter.authentications.add(verdict.outcome);
    this.#tell(verdict.event, request);
    log.debug({ minion: id, remote: peer.address, act: verdict.outcome }, 'sign-in');
    return verdict.outcome === 'accept'
      ? this.#accept(request, peer)
      : this.#refuse(request, verdict.ret);
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

  /** @returns false when the key cannot be kept because too many are pending */
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

  async #accept(request: AuthRequest, { publishPort }: Peer): Promise<Uint8Array> {
    const { masterKeys, publishKey, sessions, rsa } = this.#options;
    const session = await sessions.obtain(request.id);
    const { key, signature } = publishKey.current;
    const pubSig = await this.#signMasterKey(request);
    return rsa.run({
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
    });
  }

  async #signMasterKey(request: AuthRequest): Promise<string | undefined> {
    const { masterKeySigner, masterKeys, rsa } = this.#options;
    if (masterKeySigner === undefined) return undefined;
    if (masterKeySigner.kind === 'signature') return masterKeySigner.signature;
    return rsa.run({
      kind: 'sign-master-pub',
      signKey: masterKeySigner.keys.privateKey,
      publicPem: masterKeys.publicPem,
      algorithm: request.sigAlgo,
    });
  }

  #refuse(context: AuthReplyContext, ret: boolean | 'full'): Promise<Uint8Array> {
    const masterKey = this.#options.masterKeys.privateKey;
    return this.#options.rsa.run({ kind: 'refuse', context, ret, masterKey });
  }

  #tell(
    event: KeyDecision['event'] | { readonly result: false; readonly act: 'full' },
    { id, pub }: AuthRequest,
  ): void {
    if (this.#options.config.current.authEvents)
      this.#options.bus.fire(tags.auth, { ...event, id, pub });
  }

  /** Sign-ins that will not succeed are few an address, so that they cost no RSA beyond that. */
  #mayFail(peer: Peer): boolean {
    return this.#options.rate.tryTake(peer.address);
  }

  /**
   * A key that is known is no secret, and each answer to it costs RSA: so many for each address and
   * id, that the owner's own address never pays for another.
   */
  #mayRepeat(peer: Peer, id: string): boolean {
    return this.#options.rate.tryTake(JSON.stringify([peer.address, id]));
  }
}

/** What an advice comes to. A pending key gives way to one that is known to be the right one. */
const verdicts: Readonly<Record<'accept' | 'deny' | 'wait', KeyDecision>> = {
  accept: verdict('accept', true, 'store-accepted'),
  deny: verdict('denied', false, 'store-denied'),
  // One key an id is kept as pending; the minion asks again until it is known whose is the right one.
  wait: verdict('pend', true, 'none'),
};

function verdict(
  outcome: 'accept' | 'denied' | 'pend',
  ret: boolean,
  transition: KeyDecision['transition'],
): KeyDecision {
  return { outcome, ret, transition, event: { result: ret, act: outcome } };
}

/** Enough of a comparison to choose a rate limit by; the verdict compares clean keys itself. */
function isSameText(stored: string, offered: string): boolean {
  return stored.trim() === offered.trim();
}

/** Equal for requests that are the same in everything that their answer depends on. */
function digestOf(request: AuthRequest): string {
  const { id, nonce, pub, version, token, encAlgo, sigAlgo, autosignGrains } = request;
  const parts = [id, nonce, pub, version, token, encAlgo, sigAlgo, autosignGrains];
  const packed = packWire(parts.map((part) => part ?? null));
  return createHash('sha256').update(packed).digest('base64');
}

/** What tells who is connected. */
export interface FullnessOptions {
  readonly config: Pick<LiveConfig, 'current'>;
  readonly lastHeard: Pick<LastHeard, 'size'>;
  readonly present: () => readonly PresentMinion[];
  readonly now: () => number;
}

/** Milliseconds that a count holds: a fleet that signs in again is not counted for each of it. */
const countHoldsMs = 1000;

/**
 * Whether `max_minions` keeps an id out: more than so many are connected, and it is none of them
 * [WIRE 6.2].
 */
export function createFullnessCheck(options: FullnessOptions): (id: string) => boolean {
  const { config, lastHeard, present, now } = options;
  let connected: ReadonlySet<string> = new Set();
  let countedAt = Number.NEGATIVE_INFINITY;
  return (id) => {
    const { maxMinions } = config.current;
    // Nobody is connected who was not heard, so that most of the time nobody is counted.
    if (maxMinions === 0 || lastHeard.size <= maxMinions) return false;
    if (Math.abs(now() - countedAt) >= countHoldsMs) {
      // Anybody may ask for a topic: one that only that speaks for takes no other minion's room.
      const counted = present().filter(({ by, isSure }) => isSure || by !== 'topic');
      connected = new Set(counted.map((minion) => minion.id));
      countedAt = now();
    }
    return connected.size > maxMinions && !connected.has(id);
  };
}
