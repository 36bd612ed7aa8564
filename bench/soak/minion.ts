/**
 * Simulated minion that survives rejected requests, the deletion of its key, key rotation and lost
 * connections.
 */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { isWireMap, ProtocolError, type WireMap, type WireValue } from '#minion-protocol';
import type { SwarmKey } from '../swarm/keys.ts';
import type { PublicationReader } from '../swarm/publications.ts';
import { ConnectionEnded, Dealer, subscribe } from '../swarm/zmtp-client.ts';
import { type SealedRequest, type Session, sealRequest, trySignIn } from './session.ts';
import type { Answer, Tally } from './tally.ts';

/** Data that all minions of one swarm share. */
export interface SoakSwarm {
  readonly requestPort: number;
  readonly publishPort: number;
  readonly tally: Tally;
  readonly publications: PublicationReader;
  /** Called with an error that must not happen. */
  readonly fail: (error: unknown) => void;
}

/**
 * Delays before a sign-in is repeated, and before a lost connection is opened again, in
 * milliseconds.
 */
const retryMs = { signIn: 1000, connection: 100 };
/**
 * Maximum number of times that a return is sent until it is acknowledged. Real minions do the same.
 */
const returnTries = 5;

export class SoakMinion {
  readonly id: string;
  readonly #key: SwarmKey;
  readonly #swarm: SoakSwarm;
  #dealer: Dealer | undefined;
  #subscription: Socket | undefined;
  #session: Session | undefined;
  #masterPem: string | undefined;
  #signingIn: Promise<Session> | undefined;
  /** Connections that this minion itself has closed. */
  readonly #left = new WeakSet<Dealer>();

  constructor(id: string, key: SwarmKey, swarm: SoakSwarm) {
    this.id = id;
    this.#key = key;
    this.#swarm = swarm;
  }

  /** Signs in and subscribes. Waits for the acceptance of its key without a time limit. */
  async start(): Promise<void> {
    await this.#signedIn();
    await new Promise<void>((resolve) => {
      this.#staySubscribed(resolve).catch(this.#swarm.fail);
    });
  }

  /** Emits an event. If the connection is lost before the reply, the event is not repeated. */
  async fire(number: number): Promise<void> {
    if (this.#session === undefined) return;
    const tag = `salt/beacon/${this.id}/soak/${number}`;
    const load = { cmd: '_minion_event', tag, data: { number }, pretag: null };
    if ((await this.#tryAsk(load)) === 'good') this.#swarm.tally.events += 1;
  }

  /**
   * Closes both connections, even if requests are in progress. They are opened again immediately.
   */
  reconnect(): void {
    this.#swarm.tally.reconnects += 1;
    this.#subscription?.destroy();
    if (this.#dealer === undefined) return;
    this.#left.add(this.#dealer);
    this.#dealer.close();
    this.#dealer = undefined;
  }

  async #staySubscribed(onSubscribed: () => void): Promise<never> {
    for (;;) {
      try {
        const socket = await subscribe(this.#swarm.publishPort, (envelope) =>
          this.#receive(envelope),
        );
        this.#subscription = socket;
        onSubscribed();
        if (!socket.closed) await once(socket, 'close');
      } catch {
        // The connection failed or was lost. The loop opens the next one.
      }
      await pause(retryMs.connection);
    }
  }

  /**
   * Handles a publication. Most publications are for other minions, so this must be cheap in a
   * fleet of hundreds.
   */
  #receive(envelope: Buffer): void {
    const load = this.#tryOpen(envelope);
    if (load === undefined) this.#receiveWithNewKey(Buffer.from(envelope)).catch(this.#swarm.fail);
    else if (isWireMap(load) && this.#isMeant(load)) this.#answer(load).catch(this.#swarm.fail);
  }

  /**
   * Handles a publication that is encrypted with a newer key. It signs in again, so that the
   * publication is not lost.
   */
  async #receiveWithNewKey(envelope: Buffer): Promise<void> {
    await this.#signedIn();
    const load = this.#tryOpen(envelope);
    if (isWireMap(load) && this.#isMeant(load)) await this.#answer(load);
  }

  async #answer(load: WireMap): Promise<void> {
    const answer: WireMap = {
      cmd: '_return',
      jid: load.jid ?? null,
      fun: load.fun ?? null,
      fun_args: [],
      return: load.fun === 'saltutil.find_job' ? {} : true,
      retcode: 0,
      success: true,
    };
    for (let tries = 0; tries < returnTries; tries += 1) {
      if ((await this.#tryAsk(answer)) === 'good') return;
      await pause(retryMs.connection);
    }
  }

  #tryOpen(envelope: Buffer): WireValue | undefined {
    const session = this.#session;
    if (session === undefined) return undefined;
    const { publishKey, masterPublic } = session;
    try {
      return this.#swarm.publications.open(envelope, publishKey, masterPublic);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      if (this.#session === session) this.#session = undefined;
      return undefined;
    }
  }

  #isMeant({ tgt, tgt_type: type }: WireMap): boolean {
    return type === 'list' ? Array.isArray(tgt) && tgt.includes(this.id) : tgt === '*';
  }

  /**
   * Sends a request.
   * @returns `undefined` if the connection ended before the reply
   */
  async #tryAsk(load: WireMap): Promise<Answer | undefined> {
    const session = await this.#signedIn();
    const request = sealRequest(this.id, this.#key, session, load);
    try {
      const { answer } = await this.#ask(request);
      if (answer !== 'good' && this.#session === session) this.#session = undefined;
      return answer;
    } catch (error) {
      if (error instanceof ConnectionEnded) return undefined;
      throw error;
    }
  }

  #signedIn(): Promise<Session> {
    if (this.#session !== undefined) return Promise.resolve(this.#session);
    this.#signingIn ??= this.#signIn().finally(() => {
      this.#signingIn = undefined;
    });
    return this.#signingIn;
  }

  async #signIn(): Promise<Session> {
    for (;;) {
      this.#swarm.tally.signIns += 1;
      const session = await this.#trySignIn();
      if (session !== undefined) {
        this.#session = session;
        this.#masterPem = session.masterPem;
        return session;
      }
      await pause(retryMs.signIn);
    }
  }

  async #trySignIn(): Promise<Session | undefined> {
    try {
      return await trySignIn(this.id, this.#key, this.#masterPem, async (bytes, judge) => {
        const { reply } = await this.#ask({ bytes, judge });
        return reply;
      });
    } catch (error) {
      if (error instanceof ConnectionEnded) return undefined;
      throw error;
    }
  }

  /** Sends a request and counts it. All requests are sent with this method. */
  async #ask({
    bytes,
    judge,
  }: SealedRequest): Promise<{ readonly reply: Buffer; readonly answer: Answer }> {
    const { tally } = this.#swarm;
    const dealer = this.#connected();
    const sentAt = performance.now();
    tally.sent();
    try {
      const reply = await dealer.ask(bytes);
      tally.answered(performance.now() - sentAt);
      const answer = judge(reply);
      tally.judged(answer);
      return { reply, answer };
    } catch (error) {
      if (error instanceof ConnectionEnded) tally.lost(this.id, this.#left.has(dealer));
      throw error;
    }
  }

  #connected(): Dealer {
    if (this.#dealer !== undefined) return this.#dealer;
    const dealer = new Dealer(this.#swarm.requestPort);
    this.#dealer = dealer;
    dealer.ended.then(
      () => {
        if (this.#dealer === dealer) this.#dealer = undefined;
      },
      () => {},
    );
    return dealer;
  }
}
