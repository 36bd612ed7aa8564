/**
 * The request channel processes every request of a minion: it decodes the envelope, decrypts the
 * load, verifies the identity, applies the rate limit, calls the handler, and encrypts the reply.
 * The order of the checks and the replies are the same as in Salt's master [WIRE 5.2,
 * salt/channel/server.py]. Rejections are counted by reason. Every request gets one reply, except
 * after a {@link DropConnectionError}.
 */

import type { Logger } from 'pino';
import type { FixedConfig } from '#config';
import {
  type CheckedRequest,
  type ClearEnvelope,
  type CrypticleKey,
  checkLoad,
  crypticleMac,
  decodeEnvelope,
  encodePackedReply,
  encodePackedReplyInSlices,
  envelopeLimits,
  type FactMap,
  isEncryptionAlgorithm,
  isSigningAlgorithm,
  loadLimits,
  type PayloadLimits,
  type Peer,
  type ProtocolVersion,
  packWire,
  type RequestEnvelope,
  type RequestSlot,
  type SealedEnvelope,
  type WireValue,
} from '#minion-protocol';
import { RepeatedWarnings, unlimitedSteps, WorkBudget } from '#runtime';
import { StoreError } from '#store';
import { MasterError } from '../api/index.ts';
import {
  type Auth,
  DropConnectionError,
  type Reply,
  requestOwner,
  type SignIn,
  send,
  type VerifiedRequest,
} from '../auth/index.ts';
import type { MasterContext } from '../context/index.ts';
import { turnOwner } from './load-meter.ts';
import { LoadOpener, type OpenedLoad } from './load-opener.ts';
import { mapMaybePromise } from './map-maybe-promise.ts';
import { badLoad, Refusal } from './refusal.ts';
import type { ReplayCache } from './replay-cache.ts';
import type { RequestLimits } from './request-limits.ts';
import type { RequestType } from './request-type.ts';

/** Request types by `cmd`. Minions can call only the names in this table [THREATS G-02, C-23]. */
export type RequestTable = ReadonlyMap<string, RequestType>;

export interface RequestChannelOptions {
  readonly config: Pick<FixedConfig, 'limits' | 'requestServerTtl'>;
  readonly context: Pick<MasterContext, 'counters' | 'meter' | 'now'>;
  readonly auth: Auth;
  readonly signIn: SignIn;
  readonly table: RequestTable;
  readonly limits: Pick<RequestLimits, 'loads' | 'requests'>;
  readonly repeats: ReplayCache;
  readonly log: Logger;
}

/** Request that its handler has answered, and the reply before encryption. */
interface Served {
  readonly request: VerifiedRequest;
  readonly reply: Reply;
}

const outermostFailure = 'Some exception handling minion payload';

/**
 * Maximum size of a reply that is encrypted in one step, in bytes. Nearly all replies are smaller,
 * also those with a part of a file.
 */
const maxReplyAtOnce = 512 * 1024;

/** Unencrypted commands that Salt's own programs send to this port of a salt-master. */
const commandsOfClients: ReadonlySet<unknown> = new Set([
  'get_token',
  'mk_token',
  'publish',
  'runner',
  'wheel',
]);

/** Answers the requests that transports receive. Requests and replies are bytes in MessagePack. */
export class RequestChannel {
  readonly #options: RequestChannelOptions;
  readonly #opener: LoadOpener;
  readonly #warnings: RepeatedWarnings;
  /** Limits on the number and size of values in a request, including its envelope. */
  readonly #envelopeLimits: PayloadLimits;

  constructor(options: RequestChannelOptions) {
    const { config, context, auth, limits, table, log } = options;
    const maxBytes = config.limits.requestBytes;
    this.#options = options;
    this.#envelopeLimits = { ...envelopeLimits, maxBytes };
    this.#warnings = new RepeatedWarnings(log, context.now);
    this.#opener = new LoadOpener({
      meter: limits.loads,
      table,
      limits: { ...loadLimits, maxBytes },
      check: (envelope, load) => this.#check(envelope, load),
      isRemembered: (minionId, tok) => {
        const accepted = auth.keys.acceptedPem(minionId);
        return accepted !== undefined && auth.tokens.isRemembered(accepted, tok);
      },
      onTooMany: ({ cmd = '', id }, elements, most) => {
        const about = { minion: id, cmd, elements, most };
        this.#warnings.warn(cmd, about, 'rejected a request with too many list elements');
      },
    });
  }

  /**
   * Handles a request that a transport has received.
   * @throws DropConnectionError. Other errors become replies
   */
  handle(bytes: Uint8Array, peer: Peer, turn: RequestSlot): Uint8Array | Promise<Uint8Array> {
    try {
      const answer = this.#answer(bytes, peer, turn);
      if (!(answer instanceof Promise)) return answer;
      return answer.catch((error: unknown) => this.#answerError(error, peer));
    } catch (error) {
      return this.#answerError(error, peer);
    }
  }

  /**
   * Returns the reply to a request that failed with this error.
   * @throws DropConnectionError
   */
  #answerError(error: unknown, peer: Peer): Uint8Array {
    if (error instanceof DropConnectionError) {
      this.#options.context.counters.count(error.reason);
      throw error;
    }
    if (error instanceof Refusal) return this.#refuse(error.reason, error.reply, peer);
    // The sender did not cause these failures, so they do not count against its connection.
    if (error instanceof MasterError && error.code === 'ERR_RSA_OVERLOAD') {
      return this.#reject(error.code, badLoad, peer);
    }
    this.#options.log.error({ remote: peer.address, err: error }, 'request failed');
    return this.#reject('failed', outermostFailure, peer);
  }

  #answer(bytes: Uint8Array, peer: Peer, turn: RequestSlot): Uint8Array | Promise<Uint8Array> {
    const decoded = decodeEnvelope(bytes, this.#envelopeLimits);
    if (!decoded.ok) throw new Refusal(decoded.code, decoded.reply);
    const { envelope } = decoded;
    if (envelope.enc === 'clear') {
      this.#check(envelope, envelope.load);
      turn.release();
      return this.#answerClear(envelope, peer);
    }
    const key = this.#keyFor(envelope);
    const serve = (load: OpenedLoad): Served | Promise<Served> => {
      const verified = this.#verify(envelope, load, peer);
      // The check of an unknown token waits for a thread.
      if (verified instanceof Promise) turn.release();
      return mapMaybePromise(verified, (request) => this.#serve(request, peer, turn));
    };
    const served = this.#opener.open({ envelope, key, peer, turn, serve });
    return mapMaybePromise(served, ({ request, reply }) => this.#encode(request, key, reply, turn));
  }

  /**
   * Answers unencrypted requests. Only `_auth` and `ping` are permitted [THREATS C-23]. Commands
   * that Salt's own programs send to a salt-master are refused, and the message explains how to
   * connect these programs. Any other command gets an empty map, as from a salt-master.
   */
  async #answerClear(envelope: ClearEnvelope, peer: Peer): Promise<Uint8Array> {
    const { signIn, context } = this.#options;
    const { cmd } = envelope.load;
    const isServed = cmd === '_auth' || cmd === 'ping';
    const outcome = isServed ? 'answered' : 'refused';
    context.meter.countRequest(isServed ? cmd : 'unknown', outcome);
    if (cmd === '_auth') return signIn.answer(envelope, peer);
    if (cmd === 'ping') return packWire(envelope.load);
    context.counters.count('unknown-clear-cmd');
    peer.noteRefusal();
    return packWire(commandsOfClients.has(cmd) ? notServedHere(cmd) : {});
  }

  #serve(request: VerifiedRequest, peer: Peer, turn: RequestSlot): Served | Promise<Served> {
    const met = this.#meet(request, peer);
    const given = mapMaybePromise(met, () => this.#dispatch(request, turn));
    return mapMaybePromise(given, (reply) => ({ request, reply }));
  }

  /**
   * Records the time and address of a minion's request, if its token is valid. If the protocol
   * version of the request is higher than before, stores this version as the new minimum for the
   * minion.
   */
  #meet({ minionId, isProven, version }: VerifiedRequest, peer: Peer): undefined | Promise<void> {
    if (!isProven || minionId === undefined) return undefined;
    const { auth, context } = this.#options;
    peer.identify(minionId);
    auth.lastRequests.note(minionId, context.now(), peer);
    return version > auth.pins.of(minionId) ? this.#prove(minionId, version) : undefined;
  }

  /**
   * Stores the protocol version that a minion has used. From then on, the master rejects lower
   * versions from this minion. If the version cannot be stored, the request continues, but the
   * master rejects lower versions only until it restarts.
   */
  async #prove(minionId: string, version: ProtocolVersion): Promise<void> {
    try {
      await this.#options.auth.pins.prove(minionId, version);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#options.log.warn(
        { minion: minionId, code: error.code },
        'cannot store the protocol version of a minion; after a restart, the master accepts lower versions from this minion',
      );
    }
  }

  /**
   * Returns the key that decrypts a request. In protocol 3, it is the session key of the minion. In
   * lower versions, it is the publish key that all minions share. A session key exists only while
   * the public key of its minion is accepted.
   */
  #keyFor(envelope: SealedEnvelope): CrypticleKey {
    const { keys, publishKey, sessions } = this.#options.auth;
    if (envelope.version < 3) return publishKey.current.key;
    const id = envelope.id ?? '';
    const session = keys.isAccepted(id) ? sessions.get(id) : undefined;
    if (session === undefined) throw new Refusal('no-session');
    return session;
  }

  #verify(
    envelope: SealedEnvelope,
    { checked, packed }: OpenedLoad,
    peer: Peer,
  ): VerifiedRequest | Promise<VerifiedRequest> {
    const { keys, versions, tokens } = this.#options.auth;
    const { encAlgo, sigAlgo } = envelope;
    if (!isEncryptionAlgorithm(encAlgo) || !isSigningAlgorithm(sigAlgo)) {
      throw new Refusal('algorithm');
    }
    const { id, nonce, tok, load } = checked;
    if (id !== undefined && !versions.permits(id, envelope.version, peer.address)) {
      throw new Refusal('version');
    }
    const accepted = id === undefined ? undefined : this.#acceptedKey(id);
    const isProven = accepted !== undefined && tok !== undefined;
    const request: VerifiedRequest = {
      minionId: id,
      isProven,
      isKeyCurrent: () => id === undefined || keys.acceptedPem(id) === accepted,
      version: envelope.version,
      nonce,
      ts: typeof load.ts === 'number' ? load.ts : undefined,
      address: peer.address,
      bytes: envelope.load.length,
      mac: crypticleMac(envelope.load),
      load,
      packed,
      encAlgo,
      sigAlgo,
    };
    if (!isProven || tokens.isRemembered(accepted, tok)) return request;
    return this.#checkToken(accepted, tok, request.address).then(() => request);
  }

  #check(envelope: RequestEnvelope, load: WireValue): CheckedRequest {
    const { config, context } = this.#options;
    const checked = checkLoad(envelope, load, {
      nowSeconds: context.now() / 1000,
      ttlSeconds: config.requestServerTtl,
    });
    if (!checked.ok) throw new Refusal(checked.code, checked.reply);
    return checked.request;
  }

  /**
   * Returns the accepted key of an id. If there is none, the request is rejected: the function
   * throws a `Refusal`.
   */
  #acceptedKey(id: string): string {
    const accepted = this.#options.auth.keys.acceptedPem(id);
    if (accepted === undefined) throw new Refusal('not-accepted');
    return accepted;
  }

  /**
   * Checks the token of a request. A request with an invalid token is rejected, even if its type
   * needs no token.
   */
  async #checkToken(accepted: string, tok: Uint8Array, address: string): Promise<void> {
    const { tokens } = this.#options.auth;
    if (!(await tokens.isGenuine(accepted, tok, address))) throw new Refusal('token');
  }

  #dispatch(request: VerifiedRequest, turn: RequestSlot): Reply | Promise<Reply> {
    const { table, limits, context } = this.#options;
    const { cmd } = request.load;
    const type = typeof cmd === 'string' ? table.get(cmd) : undefined;
    const isNext = type?.rate === 'own' || limits.requests.pass(rateOwner(request, type));
    // These requests may need RSA operations, pillar or jobs, which take time. So the connection
    // may process its next request meanwhile.
    if (isNext !== true || !type?.isBrief) turn.release();
    return mapMaybePromise(isNext, (isItsTurn) => {
      // The key may have been deleted while the request waited.
      if (!request.isKeyCurrent()) throw new Refusal('not-accepted');
      if (isItsTurn) return this.#serveType(cmd, type, request);
      context.meter.countRequest(type === undefined ? 'unknown' : String(cmd), 'unanswered');
      throw new DropConnectionError('too-many-waiting');
    });
  }

  #serveType(
    cmd: WireValue | undefined,
    type: RequestType | undefined,
    request: VerifiedRequest,
  ): Reply | Promise<Reply> {
    const { counters, meter } = this.#options.context;
    if (typeof cmd !== 'string') throw new Refusal('no-cmd', outermostFailure);
    if (type === undefined) {
      counters.count('unknown-cmd');
      meter.countRequest('unknown', 'refused');
      return send({});
    }
    if (!request.isProven && type.needsToken) {
      counters.count('unproven');
      meter.countRequest(cmd, 'refused');
      return send({});
    }
    return this.#run(cmd, type, request);
  }

  #run(
    cmd: string,
    { kind, handler }: RequestType,
    request: VerifiedRequest,
  ): Reply | Promise<Reply> {
    try {
      const reply =
        kind === 'once'
          ? this.#options.repeats.once(request, () => handler(request))
          : handler(request);
      if (reply instanceof Promise) return this.#follow(cmd, request, reply);
      this.#options.context.meter.countRequest(cmd, 'answered');
      return reply;
    } catch (error) {
      return this.#handlerError(cmd, request, error);
    }
  }

  async #follow(cmd: string, request: VerifiedRequest, reply: Promise<Reply>): Promise<Reply> {
    try {
      const given = await reply;
      this.#options.context.meter.countRequest(cmd, 'answered');
      return given;
    } catch (error) {
      return this.#handlerError(cmd, request, error);
    }
  }

  /**
   * Returns the reply to a request after its handler failed with this error.
   * @throws DropConnectionError
   */
  #handlerError(cmd: string, { minionId }: VerifiedRequest, error: unknown): Reply {
    const { context, log } = this.#options;
    const { counters, meter } = context;
    meter.countRequest(cmd, error instanceof DropConnectionError ? 'unanswered' : 'failed');
    if (error instanceof DropConnectionError) throw error;
    counters.count('handler-failed');
    log.error({ minion: minionId, cmd, err: error }, 'request failed');
    return send('');
  }

  #encode(
    request: VerifiedRequest,
    key: CrypticleKey,
    reply: Reply,
    turn: RequestSlot,
  ): Uint8Array | Promise<Uint8Array> {
    if (reply.kind === 'send') {
      const seal = (): Uint8Array | Promise<Uint8Array> =>
        this.#seal(request, key, [packWire(reply.value)], turn);
      if (reply.after === undefined) return seal();
      turn.release();
      return reply.after.then(seal);
    }
    if (reply.kind === 'packed') return this.#seal(request, key, reply.pieces, turn);
    const accepted = this.#options.auth.keys.acceptedPem(request.minionId ?? '');
    if (accepted === undefined) return packWire({ error: 'AES key not found' });
    return this.#sealPrivate(request, accepted, reply.pillar);
  }

  /** Encrypts a reply for the requesting minion only, in a worker thread. */
  #sealPrivate(request: VerifiedRequest, minionPem: string, pillar: FactMap): Promise<Uint8Array> {
    const { masterKeys, rsa } = this.#options.auth;
    const { version, nonce, encAlgo, sigAlgo } = request;
    const context = { version, nonce, encAlgo, sigAlgo, masterKey: masterKeys.privateKey };
    const reply = { ...context, packedPillar: packWire(pillar) };
    return rsa.run({ kind: 'private', minionPem, reply }, requestOwner(request));
  }

  #seal(
    request: VerifiedRequest,
    key: CrypticleKey,
    pieces: readonly Uint8Array[],
    turn: RequestSlot,
  ): Uint8Array | Promise<Uint8Array> {
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
    if (length <= maxReplyAtOnce) return encodePackedReply(key, pieces, request);
    turn.release();
    const { isProven, minionId, address } = request;
    const sender = { minionId: isProven ? minionId : undefined, address };
    const budget = new WorkBudget(unlimitedSteps, turnOwner(sender));
    return encodePackedReplyInSlices(key, pieces, request, budget);
  }

  /** Rejects a request, and counts it against the sender's connection. */
  #refuse(reason: string, reply: WireValue, peer: Peer): Uint8Array {
    peer.noteRefusal();
    return this.#reject(reason, reply, peer);
  }

  #reject(reason: string, reply: WireValue, peer: Peer): Uint8Array {
    const { context, log } = this.#options;
    const { counters, meter } = context;
    counters.count(reason);
    meter.countRequest('unread', 'refused');
    log.debug({ remote: peer.address, code: reason }, 'rejected a request');
    return packWire(reply);
  }
}

/**
 * Returns the owner whose rate limit a request counts towards. In protocols 0 to 2, any sender can
 * name any minion id. A request whose type needs a token therefore counts towards the sender's
 * address, unless its token is valid.
 */
function rateOwner(
  { isProven, minionId = '', address }: VerifiedRequest,
  type: RequestType | undefined,
): string {
  if (isProven || type?.needsToken === false) return minionId;
  return turnOwner({ minionId: undefined, address });
}

/**
 * Returns the message that refuses a command, in the form that Salt's clients expect: a text for
 * `publish`, and otherwise the name and text of an exception.
 */
function notServedHere(cmd: WireValue | undefined): WireValue {
  const message = `the port of minions does not serve ${String(cmd)}; run saltbridge localclient enable, and use the configuration in the directory that it prints`;
  return { error: cmd === 'publish' ? message : { name: 'SaltClientError', message } };
}
