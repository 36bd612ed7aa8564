/** What can change while a master runs; everything else needs a restart. */
import type { Limits, MasterConfig } from './options.ts';

/** Options that a running master takes over (docs/configuration.md has the same list). */
export const reloadableOptions: readonly (keyof MasterConfig)[] = [
  'autoAccept',
  'openMode',
  'confirmOpenMode',
  'autosignFile',
  'autorejectFile',
  'autosignGrainsDir',
  'autosignTimeout',
  'permissivePkiAccess',
  'authEvents',
  'maxMinions',
  'minionIds',
  'acl',
  'publisherAcl',
  'publisherAclBlacklist',
  'externalAuth',
  'permissiveAcl',
  'eauth',
  'confirmAutoEauth',
  'reactions',
  'reactor',
  'allowMinionKeyRevoke',
  'rotateAesKey',
  'pingOnRotate',
  'nodegroups',
  'minionDataCacheEvents',
  'timeout',
  'gatherJobTimeout',
  'keepJobs',
  'keepJobsSeconds',
  // The logger belongs to whoever made it: `saltbridge master` sets its levels.
  'logLevel',
  'logLevelLogfile',
];

/** Limits that a running master takes over. */
export const reloadableLimits: readonly (keyof Limits)[] = [
  'requestsPerSecond',
  'eventsPerSecond',
  'burst',
  'returnBytes',
  'eventBytes',
  'authsPerSecond',
  'pendingKeys',
  'pendingKeysPerAddress',
];
