import type { MasterTransport, PublishOutcome } from '../minion-protocol/index.ts';
import {
  type PublicationLoad,
  publicationEnvelope,
  type SigningAlgorithm,
  sealPublication,
} from '../minion-protocol/index.ts';
import type { PublishKey } from './secrets/publish-key.ts';

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
 * Brings publications to the minions, encrypted once whatever their number [WIRE 11]. They leave
 * in the order of their serials, because a minion drops whatever comes with a lower one.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /**
   * Publishes with the next serial; resolves when it has been handed to every transport.
   * @param minionIds ids to deliver to where the transport can choose; `null`: everybody
   */
  publish(load: PublicationLoad, minionIds: readonly string[] | null): Promise<PublishOutcome> {
    const turn = this.#last.then(() => this.#send(load, minionIds));
    this.#last = turn.catch(() => {
      // Told to the caller of this publication; the next one is not affected.
    });
    return turn;
  }

  async #send(load: PublicationLoad, minionIds: readonly string[] | null): Promise<PublishOutcome> {
    const { publishKey, sign, signingAlgorithm, transports } = this.#options;
    const { key, serial } = await publishKey.take();
    const blob = sealPublication({ ...load, serial }, key);
    const signature = sign === undefined ? undefined : await sign(blob);
    const envelope = publicationEnvelope(blob, signature, signingAlgorithm);
    let queued = 0;
    let skipped = 0;
    for (const transport of transports) {
      const outcome = transport.publish({ envelope, minionIds });
      queued += outcome.queued;
      skipped += outcome.skipped;
    }
    return { queued, skipped };
  }
}
