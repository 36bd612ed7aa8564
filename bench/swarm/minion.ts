/** One simulated minion of protocol 3: it signs in, seals, and checks what comes back. */
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

/** The way to the master. */
export interface Asker {
  ask(request: Uint8Array): Promise<Buffer>;
}

/** What all minions know of a master. */
export interface Known {
  readonly publishKey: CrypticleKey;
  readonly masterPem: string;
  readonly masterPublic: KeyObject;
}

/** A request that is ready to go. */
export interface SealedLoad {
  readonly bytes: Buffer;
  readonly nonce: string;
}

/** What a sign-in gave. */
interface Session extends Known {
  readonly requestKey: CrypticleKey;
}

export class SwarmMinion {
  readonly id: string;
  readonly #key: SwarmKey;
  readonly #dealer: Asker;
  /** One in a hundred looks at RSA signatures. */
  readonly #isThorough: boolean;
  #session: Session | undefined;
  /** With the master that is known. */
  #handshake: MinionHandshake | undefined;

  constructor(id: string, index: number, key: SwarmKey, dealer: Asker) {
    this.id = id;
    this.#key = key;
    this.#dealer = dealer;
    this.#isThorough = index % 100 === 0;
  }

  /**
   * Signs in as a minion does that knows its master. One in a hundred checks everything; the rest
   * decrypt what they must, because the RSA of thousands of minions is not the master's.
   * @param known the master's key and the shared key, once somebody has them
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
    if (step.state !== 'accepted') throw new Error(`${this.id} is ${step.state}`);
    const learnt = {
      publishKey: parseKeyString(step.aes),
      masterPem: step.masterPub,
      masterPublic: parsePublicKey(step.masterPub),
    };
    this.#session = { requestKey: parseKeyString(step.session ?? ''), ...learnt };
    return learnt;
  }

  /** Another one is in the answer to the next sign-in. */
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

  /** Sends a sealed request and opens its reply: HMAC and nonce must be right. */
  async ask(load: WireMap): Promise<WireValue> {
    return this.send(this.seal(load));
  }

  seal(load: WireMap): SealedLoad {
    const nonce = randomBytes(16).toString('hex');
    return { bytes: this.#seal(load, nonce), nonce };
  }

  /** Sends what this minion sealed. */
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

  /** Fetches a file part by part, as minions do. @returns its bytes */
  async fetchFile(path: string): Promise<number> {
    for (let loc = 0; ; ) {
      const reply = await this.ask({ cmd: '_serve_file', path, saltenv: 'base', loc });
      const data = isWireMap(reply) ? wireBytes(reply.data) : undefined;
      if (data === undefined) throw new Error(`${this.id} got no part of the file`);
      if (data.length === 0) return loc;
      loc += data.length;
    }
  }

  /** Opens a publication and, if it is meant for this minion, returns `true` for it. */
  async obey(publication: Buffer, reader: PublicationReader): Promise<void> {
    const job = this.jobIn(publication, reader);
    if (job !== undefined) await this.ask(returnTo(job));
  }

  /** The load of a publication that is meant for this minion. */
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
    if (sealed === undefined) throw new Error(`${this.id} was not accepted`);
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

/** The return of a minion for which all went well. */
export function returnTo({ jid = null, fun = null }: WireMap): WireMap {
  const outcome = { return: true, retcode: 0, success: true };
  return { cmd: '_return', jid, fun, fun_args: [], ...outcome };
}
