/**
 * Tells systemd how the service is doing [sd_notify(3)]. Its socket takes datagrams, for which
 * Node has no call: systemd's own program sends them.
 */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Logger } from 'pino';

const timeoutMs = 10_000;

/** Says `READY=1`, `STOPPING=1` and the like; does nothing where no service manager listens. */
export type ServiceNotifier = (...assignments: readonly string[]) => Promise<void>;

/** @param environment - whose `NOTIFY_SOCKET` says where the service manager listens */
export function createServiceNotifier(
  log: Logger,
  environment: NodeJS.ProcessEnv = process.env,
): ServiceNotifier {
  if (environment.NOTIFY_SOCKET === undefined) return async () => {};
  return async (...assignments) => {
    try {
      await promisify(execFile)('systemd-notify', assignments, {
        env: environment,
        timeout: timeoutMs,
      });
    } catch (error) {
      // The service works all the same; a unit of Type=notify would be taken for not started.
      log.error({ err: error }, 'service manager was not told');
    }
  };
}

/**
 * Tells of the life of a service, in an order that a service manager understands: one that does not
 * serve yet, or is closing, does not reload.
 */
export class ServiceReporter {
  readonly #notify: ServiceNotifier;
  #ready: Promise<void> | undefined;
  #isStopping = false;

  constructor(notify: ServiceNotifier) {
    this.#notify = notify;
  }

  /** @param status - for people */
  ready(status: string): Promise<void> {
    this.#ready = this.#notify('READY=1', `STATUS=${status}`);
    return this.#ready;
  }

  /** Does `work`, and says when it begins and when it has ended. */
  async reload(work: () => Promise<void>): Promise<void> {
    // A manager that has just heard of it may be faster than what told it.
    await this.#ready;
    if (this.#ready === undefined || this.#isStopping) {
      await work();
      return;
    }
    const microseconds = process.hrtime.bigint() / 1000n;
    await this.#notify('RELOADING=1', `MONOTONIC_USEC=${microseconds}`);
    await work();
    if (!this.#isStopping) await this.#notify('READY=1');
  }

  async stopping(): Promise<void> {
    this.#isStopping = true;
    await this.#notify('STOPPING=1', 'STATUS=Closing');
  }
}
