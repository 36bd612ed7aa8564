/** A minion that sends any request that a test wants, through libzmq. */
import type { MasterStatus } from '#master';
import {
  dialZeromq,
  generateKeyString,
  type MinionKeys,
  parsePrivateKey,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { createMinionIdentity, MinionSession } from '#minion-protocol/minion/session.ts';
import { createMinionHandshake } from '#minion-protocol/minion-handshake.ts';
import type { MinionTransport } from '#minion-protocol/transport/transport.ts';
import type { Cleanup } from './cleanup.ts';

const timeoutMs = 10_000;

/** Result of a sign-in. */
type SignIn = ReturnType<ReturnType<typeof createMinionHandshake>['step']>;

export class SpeakingMinion {
  readonly id: string;
  readonly transport: MinionTransport;
  readonly #keys: Pick<MinionKeys, 'privatePem' | 'publicPem'>;
  #session: MinionSession | undefined;

  /**
   * Creates a minion. Its connections are closed at the end of the test.
   * @param master - master to connect to through libzmq, or a transport
   */
  constructor(
    t: Cleanup,
    id: string,
    keys: Pick<MinionKeys, 'privatePem' | 'publicPem'>,
    master: Pick<MasterStatus, 'requestPort'> | MinionTransport,
  ) {
    this.id = id;
    this.#keys = keys;
    this.transport =
      'requestPort' in master
        ? dialZeromq({ host: '127.0.0.1', requestPort: master.requestPort })
        : master;
    t.teardown(() => this.transport.close());
  }

  /** Session of the last sign-in. */
  get session(): MinionSession {
    if (this.#session === undefined) throw new Error(`${this.id} has not signed in`);
    return this.#session;
  }

  async signIn(): Promise<SignIn['state']> {
    const { privatePem, publicPem } = this.#keys;
    const handshake = createMinionHandshake({
      id: this.id,
      version: 3,
      privateKey: parsePrivateKey(privatePem),
      publicPem,
      token: generateKeyString(),
    });
    const step = handshake.step(await this.transport.request(handshake.request(), timeoutMs));
    if (step.state === 'accepted') {
      this.#session = new MinionSession(createMinionIdentity(this.id, 3, privatePem), step);
    }
    return step.state;
  }

  async ask(load: WireMap): Promise<WireValue> {
    const { bytes, nonce } = this.session.seal(load);
    return this.session.openReply(await this.transport.request(bytes, timeoutMs), nonce);
  }

  /** Sends an encrypted request and returns the reply without decrypting it. */
  async askSealed(bytes: Uint8Array): Promise<Buffer> {
    return Buffer.from(await this.transport.request(bytes, timeoutMs));
  }

  async pillar(): Promise<WireMap> {
    const load = { cmd: '_pillar', grains: { id: this.id }, saltenv: null, ver: '2' };
    const { bytes, nonce } = this.session.seal(load);
    return this.session.openPillar(await this.transport.request(bytes, timeoutMs), nonce);
  }
}
