/**
 * Simulated minion that continues when its master is restarted. It signs in once, and sends a
 * return again until it is acknowledged.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isWireMap, ProtocolError, type WireMap } from '#minion-protocol';
import { SerialGuard } from '#minion-protocol/serial-guard.ts';
import type { SwarmKey } from '../swarm/keys.ts';
import { type Known, returnTo, type SealedLoad, SwarmMinion } from '../swarm/minion.ts';
import { PublicationReader } from '../swarm/publications.ts';
import { subscribe } from '../swarm/zmtp-client.ts';
import { Line } from './line.ts';

const pauseMs = 20;

export interface LastingMinionOptions {
  readonly id: string;
  readonly index: number;
  readonly key: SwarmKey;
  readonly requestPort: number;
  readonly publishPort: number;
  /** Host of the master. Default: 127.0.0.1. */
  readonly host?: string;
  /**
   * Time to wait for a reply before the request is sent again, in milliseconds. Default: unlimited.
   */
  readonly answerMs?: number;
  /** Called immediately when a return has been acknowledged. */
  readonly onAcknowledged: (jid: string, id: string) => void;
  /** Called each time that a job arrives, also if the same job arrives again. */
  readonly onJob?: (jid: string, id: string, job: WireMap) => void;
  /**
   * Returns whether the minion runs a job. It may already have received the job from another
   * master. Default: it runs every job.
   */
  readonly isNew?: (jid: string) => boolean;
  /** Returns the duration of a job in milliseconds, by its function. Default: 0. */
  readonly jobMs?: (fun: string) => number;
  /**
   * Called when a reply or a job cannot be decrypted, so that a real minion would sign in again.
   */
  readonly onOutdated: (id: string, why: string) => void;
  /**
   * Whether the minion signs in again after such a reply or job, and continues. Default: `false`.
   */
  readonly signsInAgain?: boolean;
}

export class LastingMinion {
  readonly #options: LastingMinionOptions;
  readonly #line: Line;
  readonly #minion: SwarmMinion;
  #serials = new SerialGuard();
  /** Key for decrypting publications. */
  #publishKey = '';
  readonly #publications = new PublicationReader();
  #signingIn: Promise<void> | undefined;
  #isStopped = false;

  constructor(options: LastingMinionOptions) {
    this.#options = options;
    const { id, index, key, requestPort, host, answerMs } = options;
    this.#line = new Line(requestPort, host, answerMs);
    this.#minion = new SwarmMinion(id, index, key, this.#line);
  }

  async signIn(known: Known | undefined): Promise<Known> {
    const learnt = await this.#minion.signIn(known);
    const { text } = learnt.publishKey;
    // A new publish key starts new serial numbers.
    if (text !== this.#publishKey) this.#serials = new SerialGuard();
    this.#publishKey = text;
    return learnt;
  }

  /** Subscribes to publications. Subscribes again whenever the connection is lost. */
  async listen(): Promise<void> {
    const { publishPort, host } = this.#options;
    const onMessage = (publication: Buffer): void => void this.#onPublication(publication);
    const socket = await subscribe(publishPort, onMessage, host);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => void this.#listenAgain());
  }

  /**
   * Emits an event. Sends the same bytes again until there is a reply, as Salt's clients do.
   * @returns whether the reply means that the event was accepted
   */
  async emit(tag: string, data: WireMap): Promise<boolean> {
    const sealed = this.#minion.seal({ cmd: '_minion_event', tag, data, pretag: null });
    for (;;) {
      const answer = await this.#sendOnce(sealed);
      if (answer !== 'none') return answer === null;
      if (this.#isStopped) return false;
      await sleep(pauseMs);
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#line.close();
  }

  async #listenAgain(): Promise<void> {
    while (!this.#isStopped) {
      await sleep(pauseMs);
      try {
        await this.listen();
        return;
      } catch {
        // The master is not listening yet.
      }
    }
  }

  async #onPublication(publication: Buffer): Promise<void> {
    const { id, onOutdated, onJob, isNew = () => true } = this.#options;
    try {
      const job = await this.#jobIn(publication);
      if (job === undefined) return;
      const load = this.#serials.admit(job);
      if (!isWireMap(load) || load.jid === undefined) {
        onOutdated(id, 'the serial of a publication was used before');
        return;
      }
      const jid = String(load.jid);
      if (!isNew(jid)) return;
      onJob?.(jid, id, load);
      await this.#return(jid, returnTo(load), this.#jobMs(String(load.fun)));
    } catch (error) {
      onOutdated(id, error instanceof Error ? error.message : 'a publication cannot be decrypted');
    }
  }

  /**
   * Returns the job in a publication. If it is encrypted with a new publish key, signs in again
   * first.
   */
  async #jobIn(publication: Buffer): Promise<WireMap | undefined> {
    try {
      return this.#minion.jobIn(publication, this.#publications);
    } catch (error) {
      if (!(error instanceof ProtocolError) || !this.#options.signsInAgain) throw error;
      await this.#signInAgain(error.code);
      return this.#minion.jobIn(publication, this.#publications);
    }
  }

  #jobMs(fun: string): number {
    return this.#options.jobMs?.(fun) ?? 0;
  }

  async #return(jid: string, load: WireMap, afterMs: number): Promise<void> {
    const { id, onAcknowledged, onOutdated } = this.#options;
    if (afterMs > 0) await sleep(afterMs);
    while (!this.#isStopped) {
      const answer = await this.#sendOnce(this.#minion.seal(load));
      if (answer === null) onAcknowledged(jid, id);
      else if (answer !== 'none' && answer !== 'outdated')
        onOutdated(id, 'the master rejected a return');
      const isOver = answer !== 'none' && (answer !== 'outdated' || !this.#options.signsInAgain);
      if (isOver) return;
      await sleep(pauseMs);
    }
  }

  /**
   * Sends a request once.
   * @returns the master's reply, `none` if there is none, or `outdated` if it is encrypted with
   * another key
   */
  async #sendOnce(sealed: SealedLoad): ReturnType<SwarmMinion['send']> {
    const { id, onOutdated, signsInAgain } = this.#options;
    try {
      return await this.#minion.send(sealed);
    } catch (error) {
      if (!(error instanceof ProtocolError)) return 'none';
      if (signsInAgain) await this.#signInAgain(error.code);
      else onOutdated(id, error.code);
      return 'outdated';
    }
  }

  /** Signs in again. All concurrent callers share one sign-in. */
  #signInAgain(why: string): Promise<void> {
    this.#signingIn ??= (async () => {
      this.#options.onOutdated(this.#options.id, why);
      while (!this.#isStopped) {
        try {
          await this.signIn(undefined);
          return;
        } catch {
          await sleep(10 * pauseMs);
        }
      }
    })().finally(() => {
      this.#signingIn = undefined;
    });
    return this.#signingIn;
  }
}
