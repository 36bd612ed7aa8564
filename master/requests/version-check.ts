import type { Logger } from 'pino';
import type { ProtocolVersion } from '../../minion-protocol/index.ts';
import type { VersionPins } from './version-pins.ts';

/** Milliseconds between two lines of the log about one id: anybody may name it. */
const quietMs = 60_000;

/** What {@link VersionCheck} needs. */
export interface VersionCheckOptions {
  readonly pins: VersionPins;
  readonly isAccepted: (id: string) => boolean;
  readonly now: () => number;
  readonly log: Logger;
}

/** Whether requests have a version that may be; the log names the accepted ids whose have not. */
export class VersionCheck {
  readonly #options: VersionCheckOptions;
  /** Bounded by the accepted ids. */
  readonly #loggedAt = new Map<string, number>();

  constructor(options: VersionCheckOptions) {
    this.#options = options;
  }

  /** @param address - where the request came from */
  permits(id: string, version: ProtocolVersion, address: string): boolean {
    const { pins } = this.#options;
    if (pins.permits(id, version)) return true;
    this.#log(id, version, address);
    return false;
  }

  #log(id: string, version: ProtocolVersion, address: string): void {
    const { pins, isAccepted, now, log } = this.#options;
    const loggedAt = this.#loggedAt.get(id) ?? Number.NEGATIVE_INFINITY;
    if (!isAccepted(id)) this.#loggedAt.delete(id);
    else if (now() - loggedAt >= quietMs) {
      this.#loggedAt.set(id, now());
      const fields = { minion: id, remote: address, version, required: pins.required(id) };
      log.warn(fields, 'request refused: its protocol version is too low');
    }
  }
}
