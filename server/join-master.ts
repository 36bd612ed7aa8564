import {
  type SharedMaster,
  type SharedMasterOptions as SharingOptions,
  shareMaster,
} from '#client';
import type { SaltServiceOptions } from '#salt';
import { createMaster, preloadServices } from './create-master.ts';

/** Options of {@link joinMaster}: those of a shared master, and of Salt's services. */
export interface SharedMasterOptions extends SharingOptions, SaltServiceOptions {}

/**
 * Shares a master with the other processes of this host that have the same `state_dir`. One of them
 * holds it: store, ports and local socket. The others have the same interface through its socket.
 * When the holder ends, another process takes over within three seconds; when it hangs, after
 * `takeover_after`. All run under one account and are given the same options.
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
