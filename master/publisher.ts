import type {
  MasterTransport,
  OutgoingPublication,
  PublishOutcome,
} from '../minion-protocol/index.ts';
import {
  type PublicationLoad,
  publicationEnvelope,
  type SigningAlgorithm,
  sealPublication,
} from '../minion-protocol/index.ts';
import type { PublishKey } from './secrets/publish-key.ts';

/** Whom a publication is for. */
export type Addressees = Omit<OutgoingPublication, 'envelope'>;

/** What {@link Publisher} needs. */
export interface PublisherOptions {
  readonly publishKey: PublishKey;
  readonly transports: readonly MasterTransport[];
  /** Signs with the master's key off the main thread; `undefined`: `sign_pub_messages` is off. */
  readonly sign: ((bytes: Uint8Array) => Promise<Uint8Array>) | undefined;
  /** `publish_signing_algorithm`. */
  readonly signingAlgorithm: SigningAlgorithm;
}

/**
 * Publications that are being signed at the same time: waiting for a thread takes longer than it
 * works, so that one after the other would be a few hundred a second.
 */
const signedAtOnce = 16;

/**
 * Brings publications to the minions, encrypted once whatever their number [WIRE 11]. They are
 * signed side by side and leave in the order of their serials, because a minion drops whatever
 * comes with a lower one.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  #lastTaken: Promise<unknown> = Promise.resolve();
  #lastSent: Promise<unknown> = Promise.resolve();
  /** Those that have begun, and not left. */
  readonly #underWay: Promise<unknown>[] = [];

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /**
   * Publishes with the next serial; resolves when it has been handed to every transport.
   * @param to whom to deliver to, and how long to hold it for those who subscribe later
   */
  publish(load: PublicationLoad, to: Addressees): Promise<PublishOutcome> {
    const room = this.#underWay.length < signedAtOnce ? undefined : this.#underWay.shift();
    const taken = Promise.all([this.#lastTaken, room]).then(() => this.#options.publishKey.take());
    const envelope = taken.then((it) => this.#sign(load, it));
    const turn = Promise.allSettled([envelope, this.#lastSent]).then(async () =>
      this.#send({ ...to, envelope: await envelope }),
    );
    // What fails is told to the caller of this publication; the next one is not affected.
    this.#lastTaken = taken.catch(() => {});
    this.#lastSent = turn.catch(() => {});
    this.#underWay.push(this.#lastSent);
    return turn;
  }

  async #sign(
    load: PublicationLoad,
    { key, serial }: Awaited<ReturnType<PublishKey['take']>>,
  ): Promise<Uint8Array> {
    const { sign, signingAlgorithm } = this.#options;
    const blob = sealPublication({ ...load, serial }, key);
    const signature = sign === undefined ? undefined : await sign(blob);
    return publicationEnvelope(blob, signature, signingAlgorithm);
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
