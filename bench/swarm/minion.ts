/** Simulated minion of protocol 3. It signs in, encrypts requests and checks the replies. */
import { type KeyObject, randomBytes } from 'node:crypto';
import {
  type CrypticleKey,
  isWireMap,
  parseKeyString,
  parsePublicKey,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from '#minion-protocol';
import { encodeRequest } from '#minion-protocol/encode-request.ts';
import { createMinionHandshake, type MinionHandshake } from '#minion-protocol/minion-handshake.ts';
import { openPrivateReply, openSendReply } from '#minion-protocol/reply.ts';
import { rsaDecrypt } from '#minion-protocol/rsa.ts';
import type { SwarmKey } from './keys.ts';
import type { PublicationReader } from './publications.ts';

/** Connection over which requests are sent. */
export interface Asker {
  ask(request: Uint8Array): Promise<Buffer>;
}

/** Data of a master that all its minions share. */
export interface Known {
  readonly publishKey: CrypticleKey;
  readonly masterPem: string;
  readonly masterPublic: KeyObject;
}

/** An encrypted request that is ready to be sent. */
export interface SealedLoad {
  readonly bytes: Buffer;
  readonly nonce: string;
}

/** Session keys from a sign-in. */
interface Session extends Known {
  readonly requestKey: CrypticleKey;
}

export class SwarmMinion {
  readonly id: string;
  readonly #key: SwarmKey;
  readonly #dealer: Asker;
  /** Whether the minion verifies RSA signatures. One in a hundred does. */
  readonly #isThorough: boolean;
  #session: Session | undefined;
  /** Handshake with a master. The key of the master is known. */
  #handshake: MinionHandshake | undefined;

  constructor(id: string, index: number, key: SwarmKey, dealer: Asker) {
    this.id = id;
    this.#key = key;
    this.#dealer = dealer;
    this.#isThorough = index % 100 === 0;
  }

  /**
   * Signs in like a minion that knows its master's key. One minion in a hundred checks everything.
   * The others only decrypt the keys, because the RSA operations of thousands of minions should not
   * be measured as the master's.
   * @param known - the master's key and the publish key, if another minion already has them
   */
  async signIn(known: Known | undefined): Promise<Known> {
    if (known !== undefined) this.#handshake ??= this.#begin(known.masterPem);
    const handshake = this.#handshake ?? this.#begin();
    const reply = await this.#dealer.ask(handshake.request());
    if (known !== undefined && !this.#isThorough) {
      const requestKey = this.#session?.requestKey ?? this.#openSession(reply);
      this.#session = { requestKey, ...known };
      return known;
    }
    const step = handshake.step(reply);
    if (step.state !== 'accepted')
      throw new Error(`${this.id} cannot sign in: the key has the state ${step.state}`);
    const learnt = {
      publishKey: parseKeyString(step.aes),
      masterPem: step.masterPub,
      masterPublic: parsePublicKey(step.masterPub),
    };
    this.#session = { requestKey: parseKeyString(step.session ?? ''), ...learnt };
    return learnt;
  }

  /** Forgets the session, so that the minion uses the one in the reply to the next sign-in. */
  forgetSession(): void {
    this.#session = undefined;
  }

  #begin(masterPub?: string): MinionHandshake {
    return createMinionHandshake({
      id: this.id,
      version: 3,
      privateKey: this.#key.privateKey,
      publicPem: this.#key.publicPem,
      token: this.#key.token,
      ...(masterPub === undefined ? {} : { masterPub }),
    });
  }

  /**
   * Encrypts and sends a request, and decrypts its reply. HMAC and nonce of the reply must be
   * right.
   */
  async ask(load: WireMap): Promise<WireValue> {
    return this.send(this.seal(load));
  }

  seal(load: WireMap): SealedLoad {
    const nonce = randomBytes(16).toString('hex');
    return { bytes: this.#seal(load, nonce), nonce };
  }

  /** Sends a request that this minion has encrypted, and decrypts the reply. */
  async send({ bytes, nonce }: SealedLoad): Promise<WireValue> {
    const { requestKey } = this.#signedIn();
    const reply = await this.#dealer.ask(bytes);
    return openSendReply(reply, { version: 3, nonce, key: requestKey });
  }

  async askPillar(): Promise<void> {
    const nonce = randomBytes(16).toString('hex');
    const load = { cmd: '_pillar', grains: { os: 'Debian', id: this.id }, ver: '2', saltenv: null };
    const reply = await this.#dealer.ask(this.#seal(load, nonce));
    if (!this.#isThorough) return;
    openPrivateReply(reply, {
      version: 3,
      nonce,
      minionKey: this.#key.privateKey,
      masterKey: this.#signedIn().masterPublic,
      encAlgo: 'OAEP-SHA1',
      sigAlgo: 'PKCS1v15-SHA1',
    });
  }

  /**
   * Fetches a file in parts, as minions do.
   * @returns the size of the file, in bytes
   */
  async fetchFile(path: string): Promise<number> {
    for (let loc = 0; ; ) {
      const reply = await this.ask({ cmd: '_serve_file', path, saltenv: 'base', loc });
      const data = isWireMap(reply) ? wireBytes(reply.data) : undefined;
      if (data === undefined)
        throw new Error(`${this.id} received a reply without data of the file`);
      if (data.length === 0) return loc;
      loc += data.length;
    }
  }

  /** Decrypts a publication. If it is for this minion, returns `true` as the result of the job. */
  async obey(publication: Buffer, reader: PublicationReader): Promise<void> {
    const job = this.jobIn(publication, reader);
    if (job !== undefined) await this.ask(returnTo(job));
  }

  /** Returns the load of a publication if it is for this minion. */
  jobIn(publication: Buffer, reader: PublicationReader): WireMap | undefined {
    const { publishKey, masterPublic } = this.#signedIn();
    const load = reader.open(publication, publishKey, masterPublic);
    return isWireMap(load) && this.#isMeant(load) ? load : undefined;
  }

  #openSession(reply: Uint8Array): CrypticleKey {
    const envelope = unpackWire(reply);
    const load = isWireMap(envelope) ? wireBytes(envelope.load) : undefined;
    const accepted = load === undefined ? undefined : unpackWire(load);
    const sealed = isWireMap(accepted) ? wireBytes(accepted.session) : undefined;
    if (sealed === undefined) throw new Error(`the master did not accept the key of ${this.id}`);
    const text = rsaDecrypt(this.#key.privateKey, sealed, 'OAEP-SHA1').toString('latin1');
    return parseKeyString(text);
  }

  #isMeant({ tgt, tgt_type: type }: WireMap): boolean {
    return type === 'list' ? Array.isArray(tgt) && tgt.includes(this.id) : tgt === '*';
  }

  #seal(load: WireMap, nonce: string): Buffer {
    return encodeRequest({
      enc: 'aes',
      version: 3,
      key: this.#signedIn().requestKey,
      load,
      nonce,
      identity: { id: this.id, ts: Math.floor(Date.now() / 1000), tok: this.#key.proof },
    });
  }

  #signedIn(): Session {
    if (this.#session === undefined) throw new Error(`${this.id} has not signed in`);
    return this.#session;
  }
}

/** Returns the load of a successful return for a job. */
export function returnTo({ jid = null, fun = null }: WireMap): WireMap {
  const outcome = { return: true, retcode: 0, success: true };
  return { cmd: '_return', jid, fun, fun_args: [], ...outcome };
}
