/**
 * Reports the state of the service to systemd [sd_notify(3)]. systemd expects datagrams on a Unix
 * socket, which Node.js cannot send. Therefore the program `systemd-notify` sends them.
 */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Logger } from 'pino';

const timeoutMs = 10_000;

/**
 * Sends assignments such as `READY=1` and `STOPPING=1` to the service manager. Does nothing without
 * a service manager.
 */
export type ServiceNotifier = (...assignments: readonly string[]) => Promise<void>;

/**
 * Creates a notifier.
 * @param environment - environment variables. `NOTIFY_SOCKET` contains the address of the service
 * manager
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
      // The service works without this notification, but systemd considers a unit with Type=notify
      // as not started.
      log.error(
        { err: error },
        'cannot notify systemd of the state of the master; systemd may consider the master as not started',
      );
    }
  };
}

/**
 * Reports the life cycle of a service to the service manager. A reload is not reported while the
 * service is starting or closing.
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
   * @param status - status text that systemd displays
   */
  ready(status: string): Promise<void> {
    this.#ready = this.#notify('READY=1', `STATUS=${status}`);
    return this.#ready;
  }

  /**
   * Runs `work`, which reloads the configuration. Reports the start and the end of the reload to
   * the service manager.
   */
  async reload(work: () => Promise<void>): Promise<void> {
    // The service manager may request a reload before the notification of readiness has been sent.
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
