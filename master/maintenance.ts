import type { Logger } from 'pino';
import type { MasterConfig } from './config/options.ts';
import type { Logins } from './eauth/logins.ts';
import type { Foundations } from './foundations.ts';
import type { Revocation } from './keys/revocation.ts';

/** What is looked at every `loop_interval`. */
export interface MaintenanceOptions {
  readonly config: MasterConfig;
  readonly foundations: Foundations;
  readonly revocation: Revocation;
  readonly logins: Pick<Logins, 'sweep'>;
  readonly now: () => number;
  readonly log: Logger;
}

/** Replaces the publish key when it is older than `publish_session`; drops expired tokens. */
export function startMaintenance(options: MaintenanceOptions): { stop: () => void } {
  const { config, foundations, revocation, logins, now, log } = options;
  const lifetimeMs = config.publishSession * 1000;
  const round = (): void => {
    logins.sweep().catch((error: unknown) => {
      log.error({ err: error }, 'expired tokens were not dropped');
    });
    if (lifetimeMs === 0 || now() - foundations.publishKey.current.madeAt < lifetimeMs) return;
    revocation.rotate().catch((error: unknown) => {
      log.error({ err: error }, 'publish key rotation failed');
    });
  };
  const timer = setInterval(round, config.loopInterval * 1000);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
