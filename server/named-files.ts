/** Checks the files and directories that a configuration names. */

import { stat } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import {
  type CheckedConfig,
  type ConfigWarning,
  configLimits,
  isSettings,
  type MasterConfig,
  placeOf,
  readBackend,
  type Settings,
  type SslOptions,
  textsOf,
} from '#config';
import { describeSystemError, errorMessage, readRegularFile, type ValuePath } from '#runtime';

/**
 * Problem of a file that the configuration names. `key` is the path of keys to the option that
 * names it.
 */
export interface FileProblem {
  readonly key: readonly string[];
  readonly problem: string;
}

export async function isDirectory(directory: string): Promise<boolean> {
  const found = await stat(directory).catch(() => undefined);
  return found?.isDirectory() ?? false;
}

/** Certificate and key that the configuration names. */
interface NamedCertificate {
  /** Keys that lead to the section with the names of the files, the outermost first. */
  readonly section: readonly string[];
  /** Names of the options and their files: the certificate first, then its key. */
  readonly files: readonly (readonly [option: string, file: string | undefined])[];
}

/**
 * Returns problems of certificate and key files: files that cannot be read, and keys that do not
 * match their certificate.
 */
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
      contents.push(await readRegularFile(file, configLimits.namedFileBytes));
    } catch (error) {
      const reason = describeSystemError(error) ?? errorMessage(error);
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

/**
 * Returns a warning for each missing directory of `file_roots` and `pillar_roots`. Entries with
 * wildcards are not checked.
 */
export async function findMissingRoots(settings: Settings): Promise<ConfigWarning[]> {
  const warnings: ConfigWarning[] = [];
  for (const option of ['file_roots', 'pillar_roots']) {
    const environments = settings.get(option)?.value;
    for (const [name, { value, origin }] of isSettings(environments) ? environments : []) {
      for (const place of textsOf(value)) {
        if (/[*?[]|__env__/.test(place) || (await isDirectory(place))) continue;
        const message = `${placeOf(origin)}: ${option}:${name}: ${place} is not a directory, so no file is served from it`;
        warnings.push({ kind: 'missing-directory', ...origin, message });
      }
    }
  }
  return warnings;
}

/**
 * A configuration value without effect, and the reason. `key` is the path of the value in the
 * configuration: the keys of the maps that contain it, from the outermost one.
 */
export interface ValueProblem {
  readonly key: ValuePath;
  readonly problem: string;
}

/**
 * Returns warnings about missing files that options name. The master starts without these files.
 */
export async function findMissingFiles({
  config,
  settings,
}: Pick<CheckedConfig, 'config' | 'settings'>): Promise<ValueProblem[]> {
  const named: readonly (readonly [key: ValuePath, file: string])[] = [
    ...ofOption(settings, 'autosign_file', config.autosignFile),
    ...ofOption(settings, 'autoreject_file', config.autorejectFile),
    ...ofOption(settings, 'autosign_grains_dir', config.autosignGrainsDir),
    ...reactorFiles(config, settings),
    ...passwordFiles(config),
  ];
  const found = await Promise.all(
    named.map(async ([key, file]) => {
      const isThere = await Promise.all(placesOf(file, config).map(exists));
      const problem = `${file} does not exist, so this entry has no effect`;
      return isThere.includes(true) ? [] : [{ key, problem }];
    }),
  );
  return found.flat();
}

/**
 * Returns the file of an option, as a list of one, if the configuration sets the option. Otherwise
 * returns an empty list: the file that an option has by default need not exist.
 */
function ofOption(
  settings: Settings,
  name: string,
  file: string | null,
): (readonly [ValuePath, string])[] {
  return file === null || file === '' || !settings.has(name) ? [] : [[[name], file]];
}

function reactorFiles(
  { fileserverBackend, reactor }: MasterConfig,
  settings: Settings,
): (readonly [ValuePath, string])[] {
  if (!settings.has('reactor')) return [];
  const isOnDisk = fileserverBackend.every((name) => name === 'roots');
  return reactor.flatMap(({ tag, sls }, index) =>
    sls.flatMap((file, place) => {
      const isKnown = isOnDisk || !file.startsWith('salt://');
      return isKnown && !/[*?[]/.test(file)
        ? [[['reactor', index, tag, place], file] as const]
        : [];
    }),
  );
}

/** Returns the password files of the eauth back end `file`. */
function passwordFiles(config: MasterConfig): (readonly [ValuePath, string])[] {
  const read = readBackend('file', config);
  if (config.externalAuth.file === undefined || !('settings' in read)) return [];
  const { settings } = read;
  return settings.kind === 'file'
    ? [[['external_auth', 'file', '^filename'], settings.filename]]
    : [];
}

/**
 * Returns the paths at which a named file can be. For a `salt://` URL, there is one in each
 * directory of the environment `base`.
 */
function placesOf(file: string, { fileRoots }: MasterConfig): readonly string[] {
  const [, below] = /^salt:\/\/(.+)$/s.exec(file) ?? [];
  if (below === undefined) return [file];
  return (fileRoots.base ?? []).map((root) => `${root}/${below}`);
}

async function exists(file: string): Promise<boolean> {
  return (await stat(file).catch(() => undefined)) !== undefined;
}
