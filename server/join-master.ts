import {
  type SharedMaster,
  type SharedMasterOptions as SharingOptions,
  shareMaster,
} from '#client';
import type { SaltServiceOptions } from '#salt';
import { createMaster, preloadServices } from './create-master.ts';

/** Options of {@link joinMaster}: those of a shared master and of Salt's services. */
export interface SharedMasterOptions extends SharingOptions, SaltServiceOptions {}

/**
 * Shares a master with the other processes of this host that have the same `state_dir`. One of them
 * holds the store, the ports and the local socket. The others offer the same interface through its
 * socket. If the holder ends, another process takes over within three seconds. If it hangs, another
 * takes over after `takeover_after`. All processes must run under one account and have the same
 * options.
 * @throws ConfigError, which names the option as the program does
 */
export function joinMaster(options: SharedMasterOptions): SharedMaster {
  const { without, fileserver, pillar, extPillar, tops, ...sharing } = options;
  const services = { without, fileserver, pillar, extPillar, tops };
  return shareMaster(sharing, {
    create: (own) => createMaster({ ...own, ...services }),
    preload: preloadServices,
  });
}
