import {
  type SharedMaster,
  type SharedMasterOptions as SharingOptions,
  shareMaster,
} from '#client';
import type { SaltServiceOptions } from '#salt';
import { createMaster, preloadServices } from './create-master.ts';

/** Options of {@link joinMaster}: options of the shared master and of Salt's services. */
export interface SharedMasterOptions extends SharingOptions, SaltServiceOptions {}

/**
 * Shares a master with the other processes of this host that have the same `state_dir`. One
 * process, the holder, opens the store, the ports and the local socket. The others offer the same
 * interface through the holder's socket. If the holder ends, another process takes over within
 * three seconds. If the holder hangs, another process takes over after `takeover_after`. All
 * processes must run under one account and have the same options.
 * @throws ConfigError if an option is invalid or conflicts with another one. The message names the
 * option as the program wrote it
 */
export function joinMaster(options: SharedMasterOptions): SharedMaster {
  const { without, fileserver, pillar, extPillar, tops, ...sharing } = options;
  const services = { without, fileserver, pillar, extPillar, tops };
  return shareMaster(sharing, {
    create: (own) => createMaster({ ...own, ...services }),
    preload: preloadServices,
  });
}
