/**
 * A simulated minion that outlives its master: it signs in once, and sends a return until it is
 * acknowledged.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isWireMap, ProtocolError, SerialGuard } from '../../minion-protocol/index.ts';
import type { SwarmKey } from '../swarm/keys.ts';
import { type Known, returnTo, SwarmMinion } from '../swarm/minion.ts';
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
  /** Called when a return has been acknowledged, before anything else happens. */
  readonly onAcknowledged: (jid: string, id: string) => void;
  /** Called when a job arrives, and again if it does so again. */
  readonly onJob?: (jid: string, id: string) => void;
  /** Milliseconds that a job takes, by its function. Default: none. */
  readonly jobMs?: (fun: string) => number;
  /** Called when a real minion would sign in again: an answer or a job that it cannot open. */
  readonly onOutdated: (id: string, why: string) => void;
}

export class LastingMinion {
  readonly #options: LastingMinionOptions;
  readonly #minion: SwarmMinion;
  readonly #serials = new SerialGuard();
  readonly #publications = new PublicationReader();
  #isStopped = false;

  constructor(options: LastingMinionOptions) {
    this.#options = options;
    const { id, index, key, requestPort } = options;
    this.#minion = new SwarmMinion(id, index, key, new Line(requestPort));
  }

  signIn(known: Known | undefined): Promise<Known> {
    return this.#minion.signIn(known);
  }

  /** Subscribes, and again whenever the connection is lost. */
  async listen(): Promise<void> {
    const { publishPort } = this.#options;
    const socket = await subscribe(publishPort, (publication) => this.#onPublication(publication));
    socket.on('error', () => socket.destroy());
    socket.once('close', () => void this.#listenAgain());
  }

  stop(): void {
    this.#isStopped = true;
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

  #onPublication(publication: Buffer): void {
    const { id, onOutdated } = this.#options;
    try {
      const job = this.#minion.jobIn(publication, this.#publications);
      if (job === undefined) return;
      const load = this.#serials.admit(job);
      if (!isWireMap(load) || load.jid === undefined) {
        onOutdated(id, 'a serial that was used before');
      } else {
        this.#options.onJob?.(String(load.jid), id);
        void this.#return(String(load.jid), returnTo(load), this.#jobMs(String(load.fun)));
      }
    } catch (error) {
      onOutdated(id, error instanceof Error ? error.message : 'a job that does not open');
    }
  }

  #jobMs(fun: string): number {
    return this.#options.jobMs?.(fun) ?? 0;
  }

  async #return(jid: string, load: ReturnType<typeof returnTo>, afterMs: number): Promise<void> {
    const { id, onAcknowledged, onOutdated } = this.#options;
    if (afterMs > 0) await sleep(afterMs);
    while (!this.#isStopped) {
      try {
        const answer = await this.#minion.ask(load);
        if (answer === null) onAcknowledged(jid, id);
        else onOutdated(id, 'a return was refused');
        return;
      } catch (error) {
        if (error instanceof ProtocolError) {
          onOutdated(id, error.code);
          return;
        }
      }
      await sleep(pauseMs);
    }
  }
}
