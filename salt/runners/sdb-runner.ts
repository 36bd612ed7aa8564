/** The `sdb` runner [salt/runners/sdb.py, salt/utils/sdb.py]. */

import { randomInt } from 'node:crypto';
import type { Logger } from 'pino';
import { type LiveConfig, sdbDrivers } from '#config';
import { MasterError } from '#master';
import { DiskFiles, HiddenDirectories } from '../file-trees/disk-files.ts';
import { hiddenDirectories } from '../file-trees/open-file-roots.ts';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { anything, count, optional, required, text } from '../functions/parameters.ts';
import type { Renderer } from '../render/renderer.ts';
import { EnvironmentDriver, FilesDriver, type SdbDriver } from './sdb-drivers.ts';
import { ownerOfValues } from './stored-amounts.ts';

export interface SdbRunnerDeps {
  readonly config: LiveConfig;
  readonly reader: Pick<Renderer, 'read'>;
  readonly log: Logger;
}

interface Found {
  readonly driver: SdbDriver;
  readonly key: string;
}

/**
 * Function that finds the driver for an address. As in Salt, the result is `undefined` if the
 * address is not `sdb://<profile>/<key>` with a known profile.
 */
type Find = (uri: string) => Promise<Found | undefined>;

/** Maximum length of a generated value, in characters. */
const maxLength = 4096;
/** Maximum length of `chars`, the set of characters from which a random value is generated. */
const maxCharacters = 256;
/** Maximum length of an address, in characters. */
const maxAddressLength = 4096;

const saltCharacters = 'abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)';

/**
 * Returns the functions of the `sdb` runner. All of them are confidential, because a returned value
 * may be secret. If no profile matches an `sdb://` address, `sdb.get` and `sdb.get_or_set_hash`
 * return the address itself, and the other functions return `false`.
 */
export function sdbRunner(deps: SdbRunnerDeps): FunctionTable {
  const find = openProfiles(deps);
  const isConfidential = true;
  const uri = required(text);
  return {
    'sdb.get': masterFunction({
      summary:
        'Returns the value of sdb://profile/key; returns the URI itself if the profile does not exist.',
      parameters: { uri },
      isConfidential,
      call: async ({ uri: address }, context) => {
        const found = await find(address);
        return found === undefined ? address : found.driver.get(found.key, ownerOfValues(context));
      },
    }),
    'sdb.set': masterFunction({
      summary: 'Sets the value of sdb://profile/key; returns False if the profile does not exist.',
      parameters: { uri, value: required(anything) },
      isConfidential,
      call: async ({ uri: address, value }, context) => {
        const found = await find(address);
        return found === undefined
          ? false
          : found.driver.set(found.key, value, ownerOfValues(context));
      },
    }),
    'sdb.delete': masterFunction({
      summary: 'Deletes the value that sdb.set has stored for sdb://profile/key.',
      parameters: { uri },
      isConfidential,
      call: async ({ uri: address }) => {
        const found = await find(address);
        return found === undefined ? false : found.driver.delete(found.key);
      },
    }),
    'sdb.get_or_set_hash': masterFunction({
      summary:
        'Returns the value of sdb://profile/key; if there is none, stores and returns a random text.',
      parameters: { uri, length: optional(count, 8), chars: optional(text, saltCharacters) },
      isConfidential,
      call: async ({ uri: address, length, chars }, context) => {
        if (!address.startsWith('sdb://')) return false;
        const found = await find(address);
        if (found === undefined) return address;
        const owner = ownerOfValues(context);
        const value = await found.driver.get(found.key, owner);
        if (value !== null && value !== undefined) return value;
        return found.driver.set(found.key, randomText(length, chars), owner);
      },
    }),
  };
}

/**
 * Generates a random text.
 * @throws MasterError ERR_ARGS
 */
function randomText(length: number, chars: string): string {
  if (length > maxLength || chars === '' || chars.length > maxCharacters) {
    const problem = `\`length\` must be at most ${maxLength}, and \`chars\` must have 1 to ${maxCharacters} characters`;
    throw new MasterError('ERR_ARGS', problem);
  }
  const characters = [...chars];
  const made = Array.from({ length }, () => characters[randomInt(characters.length)]);
  return made.join('');
}

function openProfiles({ config: { fixed }, reader, log }: SdbRunnerDeps): Find {
  const environment = new EnvironmentDriver(process.env);
  let files: DiskFiles | undefined;
  const openFiles = async (): Promise<DiskFiles> => {
    files ??= new DiskFiles(await HiddenDirectories.open(hiddenDirectories(fixed)));
    return files;
  };
  return async (uri) => {
    if (uri.startsWith('sdb://') && uri.length > maxAddressLength) {
      const problem = `an sdb:// address must have at most ${maxAddressLength} characters`;
      throw new MasterError('ERR_ARGS', problem);
    }
    const [, name = '', key = ''] = /^sdb:\/\/([^/]*)\/(.+)$/s.exec(uri) ?? [];
    const profile = Object.hasOwn(fixed.sdb, name) ? fixed.sdb[name] : undefined;
    if (profile === undefined) return undefined;
    const { driver } = profile;
    if (driver === 'env') return { driver: environment, key };
    if (driver === 'yaml' || driver === 'json') {
      const parts = { files: await openFiles(), reader, log };
      return { driver: new FilesDriver(name, profile, parts), key };
    }
    const served = sdbDrivers.join(', ');
    const problem = `the sdb profile ${name}: the driver ${driver} is not supported; use ${served}`;
    throw new MasterError('ERR_NOT_SERVED', problem);
  };
}
