/** User-data for cloud-init's module `salt_minion` [cloudinit/config/cc_salt_minion.py]. */

import {
  defaultConfigDir,
  pkiDirOf,
  toQuotedYaml,
  type UserDataInput,
  type UserDataPart,
} from './user-data-parts.ts';

/**
 * Configures and starts the minion, with its keys where they are given. It has one key of its own
 * at the top, so that it does not meet those of another part when cloud-init merges them.
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
          // Its default depends on what the image's package has made already.
          pki_dir: pkiDirOf(configDir),
        }),
  };
  return {
    type: 'text/cloud-config',
    name: 'saltbridge.cfg',
    content: `#cloud-config\n${toQuotedYaml({ salt_minion: module })}`,
  };
}
