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
