/**
 * Secrets of a site. Each secret is pillar data for the minions whose ids match a glob. At the
 * centre, the secrets are in the file `<site>.yml` in the directory of the option `sites: secrets`.
 */

import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import Type, { type Static } from 'typebox';
import { parse } from 'yaml';
import type { WireMap } from '#minion-protocol';
import { compileSchema, ifPresent } from '#runtime';
import { EdgeError } from '../errors.ts';
import { maxSecretBytes } from './secret-messages.ts';

const Secrets = Type.Record(
  Type.String({ minLength: 1, maxLength: 255 }),
  Type.Unsafe<WireMap>(Type.Object({})),
);
const secretsCheck = compileSchema(Secrets);

/**
 * Secret pillar data of minions, by glob on their ids. If several globs match a minion, the last
 * one takes precedence for each key.
 */
export type SiteSecrets = Readonly<Static<typeof Secrets>>;

/** Mode bits that give access to users other than the owner of the file. */
const othersMode = 0o077;

/**
 * Reads the secrets of a site at the centre.
 * @returns the secrets as JSON, or `undefined` if the site has no file
 * @throws EdgeError ERR_SITE_SECRETS if the file is malformed, too large or readable by other
 * users. The message does not contain the content of the file
 */
export async function readSecretFile(directory: string, site: string): Promise<Buffer | undefined> {
  const file = path.join(directory, `${site}.yml`);
  const found = await ifPresent(stat(file));
  if (found === undefined) return undefined;
  if ((found.mode & othersMode) !== 0) {
    throw refused(`${file} is readable by other users; set its mode to 0600`);
  }
  const content = Buffer.from(JSON.stringify(parseSecrets(file, await readFile(file, 'utf8'))));
  if (content.length <= maxSecretBytes) return content;
  throw refused(`${file} has ${content.length} bytes of JSON, more than ${maxSecretBytes}`);
}

/**
 * Decodes secrets that a site has received.
 * @throws EdgeError ERR_SITE_SECRETS if they are malformed
 */
export function decodeSecrets(content: Uint8Array): SiteSecrets {
  try {
    return secretsCheck.Parse(JSON.parse(Buffer.from(content).toString('utf8')));
  } catch {
    throw refused('the secrets that the centre has sent are malformed');
  }
}

function parseSecrets(file: string, text: string): SiteSecrets {
  try {
    return secretsCheck.Parse(parse(text, { maxAliasCount: 0 }) ?? {});
  } catch {
    // Do not add the error, because it may contain values of the file.
    throw refused(`${file} is not a map of globs to pillar`);
  }
}

function refused(problem: string): EdgeError {
  return new EdgeError('ERR_SITE_SECRETS', problem);
}
