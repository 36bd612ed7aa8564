/** Files and directories that a configuration names. */

import { readFile, stat } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import {
  type ConfigWarning,
  isSettings,
  type MasterConfig,
  placeOf,
  type Settings,
  type SslOptions,
  textsOf,
} from '#config';
import { describeSystemError } from '#runtime';

/** A file that cannot be used, and the option that names it: keys from the top of a file. */
export interface FileProblem {
  readonly key: readonly string[];
  readonly problem: string;
}

export async function isDirectory(directory: string): Promise<boolean> {
  const found = await stat(directory).catch(() => undefined);
  return found?.isDirectory() ?? false;
}

/** A certificate with its key, as options name them. */
interface NamedCertificate {
  /** The section: keys from the top of a file. */
  readonly section: readonly string[];
  /** Names of options with their files; the certificate first, then its key. */
  readonly files: readonly (readonly [option: string, file: string | undefined])[];
}

/** Certificates and keys that cannot be read, or do not belong together. */
export async function findUnreadableCertificates(config: MasterConfig): Promise<FileProblem[]> {
  const found = await Promise.all(certificatesOf(config).map(checkCertificate));
  return found.flat();
}

function certificatesOf(config: MasterConfig): NamedCertificate[] {
  const named: NamedCertificate[] = [];
  const api = config.api ?? config.restCherrypy;
  if (api?.port !== undefined && api.disableSsl !== true) {
    named.push({
      section: config.api === null ? ['rest_cherrypy'] : ['saltbridge', 'api'],
      files: [
        ['ssl_crt', api.sslCrt],
        ['ssl_key', api.sslKey],
        ['ssl_chain', api.sslChain],
      ],
    });
  }
  named.push(...ofTransport(['ssl'], config.ssl));
  for (const [name, options] of Object.entries(config.transportOpts)) {
    named.push(...ofTransport(['transport_opts', name, 'ssl'], options?.ssl ?? false));
  }
  return named;
}

function ofTransport(section: readonly string[], ssl: SslOptions | false): NamedCertificate[] {
  if (ssl === false) return [];
  const { certfile, keyfile, caCerts } = ssl;
  const files = [
    ['certfile', certfile],
    ['keyfile', keyfile ?? certfile],
    ['ca_certs', caCerts],
  ] as const;
  return [{ section, files }];
}

async function checkCertificate({ section, files }: NamedCertificate): Promise<FileProblem[]> {
  const problems: FileProblem[] = [];
  const contents: Buffer[] = [];
  for (const [option, file] of files) {
    if (file === undefined) continue;
    try {
      contents.push(await readFile(file));
    } catch (error) {
      const reason = describeSystemError(error) ?? file;
      problems.push({ key: [...section, option], problem: `cannot be read: ${reason}` });
    }
  }
  const [cert, key] = contents;
  if (problems.length > 0 || cert === undefined || key === undefined) return problems;
  try {
    createSecureContext({ cert, key });
    return [];
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'unreadable';
    const [[option, file] = ['', '']] = files;
    const problem = `${file} and its key cannot be used together: ${reason}`;
    return [{ key: [...section, option], problem }];
  }
}

/** Directories of `file_roots` and `pillar_roots` that are not there; patterns are not looked at. */
export async function findMissingRoots(settings: Settings): Promise<ConfigWarning[]> {
  const warnings: ConfigWarning[] = [];
  for (const option of ['file_roots', 'pillar_roots']) {
    const environments = settings.get(option)?.value;
    for (const [name, { value, origin }] of isSettings(environments) ? environments : []) {
      for (const place of textsOf(value)) {
        if (/[*?[]|__env__/.test(place) || (await isDirectory(place))) continue;
        const message = `${placeOf(origin)}: ${option}:${name}: ${place} is no directory; nothing is served from it`;
        warnings.push({ kind: 'missing-directory', ...origin, message });
      }
    }
  }
  return warnings;
}
