/** User-data for cloud-init's module `salt_minion` [cloudinit/config/cc_salt_minion.py]. */

import {
  defaultConfigDir,
  pkiDirOf,
  toQuotedYaml,
  type UserDataInput,
  type UserDataPart,
} from './user-data-parts.ts';

/**
 * Returns a cloud-config that configures and starts the minion, with its keys if they are given.
 * It has a single top-level key, so cloud-init cannot mix it with keys of other parts when it
 * merges them.
 */
export function cloudConfigPart({ configDir, config, grains, keys }: UserDataInput): UserDataPart {
  const module = {
    ...(configDir === defaultConfigDir ? {} : { config_dir: configDir }),
    conf: config,
    ...(Object.keys(grains).length === 0 ? {} : { grains }),
    ...(keys === undefined
      ? {}
      : {
          public_key: keys.publicPem,
          private_key: keys.privatePem,
          // The module's default depends on files that the image's package created.
          pki_dir: pkiDirOf(configDir),
        }),
  };
  return {
    type: 'text/cloud-config',
    name: 'saltbridge.cfg',
    content: `#cloud-config\n${toQuotedYaml({ salt_minion: module })}`,
  };
}
