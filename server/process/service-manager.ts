/**
 * Reports the state of the service to systemd [sd_notify(3)]. Its socket accepts datagrams, which
 * Node.js cannot send to Unix sockets, so systemd's own program sends them.
 */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Logger } from 'pino';

const timeoutMs = 10_000;

/**
 * Sends `READY=1`, `STOPPING=1` and similar assignments. Does nothing without a service manager.
 */
export type ServiceNotifier = (...assignments: readonly string[]) => Promise<void>;

/**
 * Creates a notifier.
 * @param environment - its `NOTIFY_SOCKET` contains the address of the service manager
 */
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
      // The service works anyway, but systemd would consider a unit of Type=notify as not started.
      log.error({ err: error }, 'service manager could not be notified');
    }
  };
}

/**
 * Reports the life cycle of a service in the order that a service manager expects. A service that
 * is not ready yet, or is closing, does not report a reload.
 */
export class ServiceReporter {
  readonly #notify: ServiceNotifier;
  #ready: Promise<void> | undefined;
  #isStopping = false;

  constructor(notify: ServiceNotifier) {
    this.#notify = notify;
  }

  /**
   * Reports that the service is ready.
   * @param status - text for people
   */
  ready(status: string): Promise<void> {
    this.#ready = this.#notify('READY=1', `STATUS=${status}`);
    return this.#ready;
  }

  /** Runs `work`, and reports its start and end. */
  async reload(work: () => Promise<void>): Promise<void> {
    // The manager may send a request before the report of readiness has finished.
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
