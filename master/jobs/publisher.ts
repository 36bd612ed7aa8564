import type { KeyObject } from 'node:crypto';
import {
  type MasterTransport,
  type OutgoingPublication,
  type PublicationLoad,
  type PublishOutcome,
  publicationEnvelope,
  type SigningAlgorithm,
  sealValue,
} from '#minion-protocol';
import { FairSlots, Mutex } from '#runtime';
import type { Auth, PublishKey } from '../auth/index.ts';
import { jobLimits } from './limits.ts';
import type { PublicationId, PublicationLog } from './publication-log.ts';
import type { Reconnecting } from './reconnecting.ts';

/**
 * Recipients of a publication, and the time for which transports retain it for minions that
 * subscribe later.
 */
export type Addressees = Omit<OutgoingPublication, 'envelope'>;

export interface PublisherOptions {
  readonly publishKey: PublishKey;
  readonly transports: readonly MasterTransport[];
  readonly rsa: Pick<Auth['rsa'], 'run'>;
  /** Private key that signs publications, or `undefined` if `sign_pub_messages` is off. */
  readonly masterKey: KeyObject | undefined;
  /** Algorithm of the signature (`publish_signing_algorithm`). */
  readonly signingAlgorithm: SigningAlgorithm;
  readonly log: Pick<PublicationLog, 'next' | 'noteSending'>;
  readonly reconnecting: Pick<Reconnecting, 'holdMs'>;
}

/**
 * Signed publication with its position in the order of sending. Later publications wait until this
 * one is sent or released. Callers must therefore call {@link release} in a `finally` block, even
 * if they do not send the publication.
 */
export interface PublicationSlot {
  readonly id: PublicationId;
  readonly serial: number;
  /**
   * Waits until every earlier publication has been sent or released, and then passes this
   * publication to each transport.
   * @param to - recipients, and the time for which transports retain it for minions that subscribe
   * later
   * @throws MasterError ERR_MASTER_STOPPED
   */
  send(to: Addressees): Promise<PublishOutcome>;
  /** Lets the next publication proceed. May be called more than once. */
  release(): void;
}

/**
 * Signs publications and sends them through the transports [WIRE 11]. Each publication is encrypted
 * only once for all minions. If several owners publish, they take turns. Publications are signed
 * concurrently but sent in the order of their serials. A minion drops a publication whose serial is
 * not higher than the last one it received.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  readonly #signatures = new FairSlots(jobLimits.signedAtOnce);
  readonly #serials = new Mutex();
  readonly #turns = new TurnQueue();

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /**
   * Returns the recipients of a publication for minions.
   * @param isByIds - whether transports may send it only to these minions instead of all
   * subscribers
   */
  addressees(minions: readonly string[], isByIds: boolean): Addressees {
    const replayMs = this.#options.reconnecting.holdMs(minions);
    return { minionIds: isByIds ? minions : null, replayMs };
  }

  /**
   * Waits for the turn of the owner. Then reserves the next position and serial for a publication,
   * encrypts it, and signs it if publications are signed.
   * @param owner - name under which limits count the requester
   * @throws LimitExceeded if too many publications wait, or the error of the signing operation. The
   * failure does not affect later publications
   */
  prepare(load: PublicationLoad, owner: string): Promise<PublicationSlot> {
    return this.#signatures.run(owner, () => this.#prepareNext(load));
  }

  async #prepareNext(load: PublicationLoad): Promise<PublicationSlot> {
    const id = this.#options.log.next();
    const turn = this.#turns.take();
    try {
      const { serial, envelope } = await this.#sign(load);
      return {
        id,
        serial,
        send: async (to) => {
          await turn.begun;
          this.#options.log.noteSending(id);
          const outcome = this.#send({ ...to, envelope });
          turn.release();
          return outcome;
        },
        release: () => turn.release(),
      };
    } catch (error) {
      turn.release();
      throw error;
    }
  }

  /**
   * Prepares and sends a publication at once. The job is not stored.
   * @param to - recipients, and the time for which transports retain the publication for minions
   * that subscribe later
   * @param owner - name under which limits count the requester
   */
  async publish(load: PublicationLoad, to: Addressees, owner: string): Promise<PublishOutcome> {
    const slot = await this.prepare(load, owner);
    try {
      return await slot.send(to);
    } finally {
      slot.release();
    }
  }

  async #sign(
    load: PublicationLoad,
  ): Promise<{ readonly serial: number; readonly envelope: Uint8Array }> {
    const { publishKey, rsa, masterKey, signingAlgorithm: algorithm } = this.#options;
    const { key, serial } = await this.#serials.run(() => publishKey.take());
    const bytes = sealValue(key, { ...load, serial });
    const signature =
      masterKey === undefined
        ? undefined
        : await rsa.run({ kind: 'sign', masterKey, bytes, algorithm }, 'master');
    return { serial, envelope: publicationEnvelope(bytes, signature, algorithm) };
  }

  #send(publication: OutgoingPublication): PublishOutcome {
    let queued = 0;
    let skipped = 0;
    for (const transport of this.#options.transports) {
      const outcome = transport.publish(publication);
      queued += outcome.queued;
      skipped += outcome.skipped;
    }
    return { queued, skipped };
  }
}

/**
 * Position in a {@link TurnQueue}. The caller that took it must call `release`. Otherwise later
 * turns never begin.
 */
interface Turn {
  /**
   * Resolves when this turn begins, which is when all earlier turns of the queue have been
   * released.
   */
  readonly begun: Promise<void>;
  release(): void;
}

/** Queue of turns. A turn begins when all earlier turns have been released. */
class TurnQueue {
  /**
   * One function for each turn that has not been released, in the order of the turns. Calling the
   * function begins the turn. The first turn has already begun.
   */
  readonly #waiting: (() => void)[] = [];

  take(): Turn {
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    this.#waiting.push(begin);
    if (this.#waiting.length === 1) begin();
    return {
      begun,
      release: () => {
        const place = this.#waiting.indexOf(begin);
        if (place === -1) return;
        this.#waiting.splice(place, 1);
        if (place === 0) this.#waiting[0]?.();
      },
    };
  }
}
