/**
 * Runs the program `git` without the configuration of the machine and of the user. Hooks and
 * submodules are disabled, and only the protocols that the options name are allowed.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { Readable } from 'node:stream';
import { type GitAccess, type GitLimits, withoutCredentials } from '#config';
import { MasterError } from '#master';
import { codeOf, linkSignals } from '#runtime';
import { saltLimits } from '../limits.ts';

/** Repository, remote and limits of a git process. */
export interface GitSetting {
  readonly access: GitAccess;
  readonly limits: GitLimits;
  /** Bare repository that receives the fetched objects. */
  readonly directory: string;
}

/**
 * Maximum and minimum of the limit on one piece of memory of git, in bytes. Between them, the limit
 * is `max_bytes`. A delta of a few bytes can describe a file of gigabytes, which git builds in
 * memory.
 */
const [maxAllocation, minAllocation] = [268_435_456, 16_777_216];
/**
 * Size from which git reads a file in parts instead of as a whole, unless a delta describes it, in
 * bytes. Files up to `max_bytes` can therefore be fetched.
 */
const bigFileBytes = 8_388_608;
/** Maximum output of one run of git, in bytes. */
const maxOutput = 16 * 1024 * 1024;
const maxComplaint = 600;
/**
 * Maximum number and size of the lines of protocol that git exchanges with a remote. Git keeps all
 * branches and tags in memory that a remote lists, also those that no refspec selects. A list over
 * HTTP without git's protocol has no such lines; the memory limit of git bounds it.
 */
const maxPackets = saltLimits.gitPackets.total ?? Infinity;
const maxPacketBytes = saltLimits.gitPacketBytes.total ?? Infinity;
/** File descriptor on which git reports each line of protocol. */
const traceFd = 3;

/** Environment variables passed to git, ssh and curl. None of git's own variables is included. */
const passedOn = [
  ...['PATH', 'HOME', 'USER', 'LOGNAME', 'SSH_AUTH_SOCK', 'TMPDIR'],
  ...['http_proxy', 'https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY', 'no_proxy', 'NO_PROXY'],
  ...['SSL_CERT_FILE', 'SSL_CERT_DIR'],
];

/**
 * Starts git. The abort signal kills git and its child processes. The caller reads the output.
 * @param isTraced - whether git reports its lines of protocol on the file descriptor 3, which the
 * caller must read. Default: false
 */
export function startGit(
  { access, limits, directory }: GitSetting,
  words: readonly string[],
  signal: AbortSignal,
  isTraced = false,
): ChildProcess & { stdin: NonNullable<ChildProcess['stdin']> } {
  const child = spawn(limits.program, [`--git-dir=${directory}`, ...words], {
    stdio: ['pipe', 'pipe', 'pipe', isTraced ? 'pipe' : 'ignore'],
    env: {
      ...environmentOf(access, limits),
      ...(isTraced ? { GIT_TRACE_PACKET: String(traceFd), GIT_TRACE_BARE: '1' } : {}),
    },
    cwd: '/',
    // A process group of its own, so that ssh and git's helpers are killed with it.
    detached: true,
  });
  const { stdin } = child;
  if (stdin === null || stdin === undefined) {
    // The process has not started, for example because no file descriptor is free. Node.js also
    // emits the error later.
    child.on('error', () => {});
    const reason = 'cannot start git: the system has no free process or file descriptor';
    throw new MasterError('ERR_GIT', reason);
  }
  const end = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // The process has already ended.
    }
  };
  if (signal.aborted) end();
  signal.addEventListener('abort', end, { once: true });
  child.once('close', () => signal.removeEventListener('abort', end));
  // Git may exit without reading its input.
  stdin.on('error', () => {});
  return Object.assign(child, { stdin });
}

/**
 * Runs git and waits until it exits.
 * @returns its standard output
 * @throws MasterError ERR_GIT with git's error output
 */
export async function runGit(
  setting: GitSetting,
  words: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  const excess = new AbortController();
  const both = linkSignals(signal, excess.signal);
  const onExcess = (): void => {
    const text = `${placeOfRemote(setting.access)}: the remote sent more than ${maxPackets} lines or ${maxPacketBytes} bytes before any object; reduce its branches and tags`;
    excess.abort(new MasterError('ERR_GIT', text));
  };
  try {
    return await outputOfGit(setting, words, both.signal, onExcess);
  } finally {
    both.unlink();
  }
}

/** @param onExcess - aborts `signal` if git exchanges too many lines of protocol */
function outputOfGit(
  setting: GitSetting,
  words: readonly string[],
  signal: AbortSignal,
  onExcess: () => void,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = startGit(setting, words, signal, true);
    countPackets(child.stdio[traceFd], onExcess);
    let [output, complaint] = ['', ''];
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      if (output.length < maxOutput) output += text;
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      complaint = (complaint + text).slice(-4 * maxComplaint);
    });
    child.once('error', (error) => reject(startError(setting, error)));
    child.once('close', (code) => {
      if (code === 0 && output.length < maxOutput) return resolve(output);
      if (signal.aborted) return reject(endedError(setting, signal));
      const reason = code === 0 ? 'the output of git is too large' : complaintOf(complaint, code);
      reject(new MasterError('ERR_GIT', `${placeOfRemote(setting.access)}: ${reason}`));
    });
    child.stdin.end();
  });
}

/** Counts the lines of protocol that git reports. Calls `onExcess` if they exceed a limit. */
function countPackets(trace: unknown, onExcess: () => void): void {
  if (!(trace instanceof Readable)) return;
  let [bytes, lines] = [0, 0];
  trace.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    for (let at = chunk.indexOf('\n'); at !== -1; at = chunk.indexOf('\n', at + 1)) lines += 1;
    if (lines > maxPackets || bytes > maxPacketBytes) onExcess();
  });
}

/**
 * Returns the error for a git command that was aborted: by its timeout, or because the master
 * closes.
 */
export function endedError({ access, limits }: GitSetting, signal: AbortSignal): MasterError {
  const { reason } = signal;
  if (reason instanceof MasterError) return reason;
  const isLate = reason instanceof Error && reason.name === 'TimeoutError';
  const why = isLate
    ? `timed out after ${limits.timeout} s`
    : 'was stopped because the master is closing';
  return new MasterError('ERR_GIT', `${placeOfRemote(access)}: git ${why}`);
}

/**
 * Returns the error for a program that did not start.
 * @param error - error of `spawn`
 */
export function startError({ access, limits }: GitSetting, error: Error): MasterError {
  const isAbsent = codeOf(error) === 'ENOENT';
  const reason = isAbsent
    ? `the program ${limits.program} is not installed`
    : `${limits.program} could not be started: ${error.message}`;
  return new MasterError('ERR_GIT', `${placeOfRemote(access)}: ${reason}`, { cause: error });
}

/** Returns the address of a remote without user and password, for messages. */
export function placeOfRemote({ url }: Pick<GitAccess, 'url'>): string {
  return withoutCredentials(url);
}

function complaintOf(complaint: string, code: number | null): string {
  const lines = withoutCredentials(complaint)
    .replaceAll(/\p{Cc}+/gu, '\n')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const lastLines = lines.join(' | ').slice(-maxComplaint);
  if (/returned error: 30\d/.test(lastLines)) {
    return `git: ${lastLines}; the master follows no redirects, so configure the address to which the server redirects`;
  }
  return lastLines === '' ? `git exited with status ${code}` : `git: ${lastLines}`;
}

function allocationLimit({ maxBytes }: GitLimits): number {
  return Math.max(minAllocation, Math.min(maxAllocation, maxBytes));
}

function environmentOf(access: GitAccess, limits: GitLimits): NodeJS.ProcessEnv {
  const environment: NodeJS.ProcessEnv = {
    LC_ALL: 'C',
    LANGUAGE: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '/bin/false',
    SSH_ASKPASS: '/bin/false',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_ALLOC_LIMIT: String(allocationLimit(limits)),
    GIT_ALLOW_PROTOCOL: limits.protocols.join(':'),
    GIT_SSH_COMMAND: sshCommand(access, limits),
    SALTBRIDGE_GIT_USER: access.user,
    SALTBRIDGE_GIT_PASSWORD: access.password,
  };
  for (const name of passedOn) {
    const value = process.env[name];
    if (value !== undefined) environment[name] = value;
  }
  const settings = settingsOf(access, limits);
  environment.GIT_CONFIG_COUNT = String(settings.length);
  for (const [index, [name, value]] of settings.entries()) {
    environment[`GIT_CONFIG_KEY_${index}`] = name;
    environment[`GIT_CONFIG_VALUE_${index}`] = value;
  }
  return environment;
}

/**
 * Returns git configuration values. They are passed in the environment, because arguments are
 * visible in the process list.
 */
function settingsOf(access: GitAccess, limits: GitLimits): [name: string, value: string][] {
  const { url, refspecs, sslVerify, user, password } = access;
  const settings: [string, string][] = [
    ['remote.origin.url', url],
    ...refspecs.map((refspec): [string, string] => ['remote.origin.fetch', refspec]),
    ['core.hooksPath', '/dev/null'],
    ['core.fsmonitor', 'false'],
    ['core.alternateRefsCommand', ''],
    ['protocol.allow', 'never'],
    ['fetch.recurseSubmodules', 'false'],
    ['submodule.recurse', 'false'],
    ['transfer.unpackLimit', '1'],
    ['core.bigFileThreshold', String(bigFileBytes)],
    // Each thread needs memory of its own for the files that deltas describe.
    ['pack.threads', '1'],
    ['gc.auto', '2000'],
    ['gc.autoPackLimit', '20'],
    ['gc.autoDetach', 'false'],
    ['gc.pruneExpire', 'now'],
    // Garbage is collected after a change, not after each fetch.
    ['maintenance.auto', 'false'],
    ['http.sslVerify', String(sslVerify)],
    // A remote must not make git send requests to other servers.
    ['http.followRedirects', 'false'],
    // Clears credential helpers of the environment and of git's defaults.
    ['credential.helper', ''],
  ];
  if (limits.credentialsFile !== null) {
    settings.push(['credential.helper', `store --file=${shellWord(limits.credentialsFile)}`]);
  }
  if (user !== '' && password !== '' && URL.canParse(url)) {
    const { protocol, host } = new URL(url);
    const answer =
      'printf "username=%s\\npassword=%s\\n" "$SALTBRIDGE_GIT_USER" "$SALTBRIDGE_GIT_PASSWORD"';
    const helper = `!f() { test "$1" = get && ${answer}; }; f`;
    settings.push([`credential.${protocol}//${host}.helper`, helper]);
  }
  return settings;
}

/** Returns the ssh command. It never prompts: a host with an unknown or changed key is rejected. */
function sshCommand({ privkey }: GitAccess, { knownHosts }: GitLimits): string {
  return [
    'ssh -o BatchMode=yes',
    '-o StrictHostKeyChecking=yes',
    ...(privkey === '' ? [] : [`-o IdentitiesOnly=yes -i ${shellWord(privkey)}`]),
    ...(knownHosts === null
      ? []
      : [`-o UserKnownHostsFile=${shellWord(knownHosts)} -o GlobalKnownHostsFile=/dev/null`]),
  ].join(' ');
}

function shellWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
