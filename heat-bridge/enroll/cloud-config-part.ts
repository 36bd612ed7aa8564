/** Part of user-data for cloud-init's module `salt_minion` [cloudinit/config/cc_salt_minion.py]. */

import {
  defaultConfigDir,
  pkiDirOf,
  toQuotedYaml,
  type UserDataInput,
  type UserDataPart,
} from './user-data-parts.ts';

/**
 * Returns a cloud-config that configures and starts the minion, with its key pair if one is given.
 * The cloud-config has only one top-level key, so that it does not affect the keys of other parts
 * when cloud-init merges the parts.
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
          // Set the directory explicitly: the module's default depends on files of the installed
          // package.
          pki_dir: pkiDirOf(configDir),
        }),
  };
  return {
    type: 'text/cloud-config',
    name: 'saltbridge.cfg',
    content: `#cloud-config\n${toQuotedYaml({ salt_minion: module })}`,
  };
}
