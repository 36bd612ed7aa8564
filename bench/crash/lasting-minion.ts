/**
 * A simulated minion that outlives its master: it signs in once, and sends a return until it is
 * acknowledged.
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
  /** Where its master is. Default: 127.0.0.1. */
  readonly host?: string;
  /** In which an answer must come, or the request is sent again. Default: ever. */
  readonly answerMs?: number;
  /** Called when a return has been acknowledged, before anything else happens. */
  readonly onAcknowledged: (jid: string, id: string) => void;
  /** Called when a job arrives, and again if it does so again. */
  readonly onJob?: (jid: string, id: string, job: WireMap) => void;
  /** Whether it runs a job, which may have come to it by another master. Default: it does. */
  readonly isNew?: (jid: string) => boolean;
  /** Milliseconds that a job takes, by its function. Default: none. */
  readonly jobMs?: (fun: string) => number;
  /** Called when a real minion would sign in again: an answer or a job that it cannot open. */
  readonly onOutdated: (id: string, why: string) => void;
  /** Whether it does so, too, and goes on. Default: it does not. */
  readonly signsInAgain?: boolean;
}

export class LastingMinion {
  readonly #options: LastingMinionOptions;
  readonly #line: Line;
  readonly #minion: SwarmMinion;
  #serials = new SerialGuard();
  /** Of the publications that it opens. */
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
    // Serials are those of one key.
    if (text !== this.#publishKey) this.#serials = new SerialGuard();
    this.#publishKey = text;
    return learnt;
  }

  /** Subscribes, and again whenever the connection is lost. */
  async listen(): Promise<void> {
    const { publishPort, host } = this.#options;
    const onMessage = (publication: Buffer): void => void this.#onPublication(publication);
    const socket = await subscribe(publishPort, onMessage, host);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => void this.#listenAgain());
  }

  /**
   * Emits an event, the same bytes until they are answered, as Salt's clients do.
   * @returns whether the answer says that it was taken
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
        // Nobody listens yet.
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
        onOutdated(id, 'a serial that was used before');
        return;
      }
      const jid = String(load.jid);
      if (!isNew(jid)) return;
      onJob?.(jid, id, load);
      await this.#return(jid, returnTo(load), this.#jobMs(String(load.fun)));
    } catch (error) {
      onOutdated(id, error instanceof Error ? error.message : 'a job that does not open');
    }
  }

  /** The job of a publication; one under a newer key is opened after a new sign-in. */
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
      else if (answer !== 'none' && answer !== 'outdated') onOutdated(id, 'a return was refused');
      const isOver = answer !== 'none' && (answer !== 'outdated' || !this.#options.signsInAgain);
      if (isOver) return;
      await sleep(pauseMs);
    }
  }

  /** @returns what the master answers; `none`: nothing, `outdated`: under other keys */
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

  /** One sign-in for all that wait for it. */
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
