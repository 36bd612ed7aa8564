import type { MasterConfig } from '../config/options.ts';
import type { Rate } from '../limits/token-bucket.ts';

/** A rate that is read anew each time, because limits can change while the master runs. */
export function rateOf(config: MasterConfig, name: 'requestsPerSecond' | 'eventsPerSecond'): Rate {
  return {
    get perSecond() {
      return config.limits[name];
    },
    get burst() {
      return config.limits.burst;
    },
  };
}
