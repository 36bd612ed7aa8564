/** `saltbridge salt-cp`: copies files to minions [salt/cli/cp.py]. */

import { type FileHandle, open, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Command } from 'commander';
import { type JobUpdate, type MasterApi, type RunRequest, returnerOf } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import type { CommandContext } from '../context.ts';
import { CommandError, errorCodeOf, exitCodes } from '../errors.ts';
import { sudoUser } from '../login.ts';
import { configOption, logLevelOption, parseSeconds } from '../options.ts';
import {
  addOutputOptions,
  chooseOutput,
  type OutputCommandOptions,
} from '../output/output-options.ts';
import { formatData } from '../output/outputters.ts';
import { printLine } from '../terminal.ts';
import { noMinionsMatched } from './follow-salt-job.ts';
import { printSaltFailure } from './salt-failures.ts';
import { printLeftOut } from './salt-output.ts';
import { addTargetOptions, rangeProblem, type TargetOptions, toTarget } from './salt-target.ts';
import { formatSaltUsageError, useSaltUsage } from './salt-usage.ts';

/** Options of the command, with commander's names. */
interface SaltCpOptions extends TargetOptions, OutputCommandOptions {
  readonly configDir: string;
  readonly timeout?: number;
  readonly chunked?: boolean;
  /** Whether the chunks are compressed. `--no-compression` disables compression. */
  readonly compression: boolean;
}

/** Files to copy, and the destination on the minions. */
interface CopyRequest {
  readonly sources: readonly string[];
  readonly destination: string;
}

/** A file or empty directory to copy with `--chunked`. */
interface SourceFile {
  readonly file: string;
  /** Permission bits of the file, or `undefined` for an empty directory. */
  readonly mode: number | undefined;
}

/** Results for each file, by minion. Minions are in the order of their first return. */
type Answers = Map<string, WireValue>;

/**
 * Maximum size of a file without `--chunked`, in bytes. Without `--chunked`, one job contains all
 * files, and jobs are held in memory.
 */
const maxWholeBytes = 1_048_576;

/** Error that ends the command with Salt's output and exit code. */
class CopyStopped extends Error {
  readonly exitCode: number;
  readonly isError: boolean;

  constructor(message: string, exitCode: number, isError: boolean) {
    super(message);
    this.exitCode = exitCode;
    this.isError = isError;
  }
}

/** Sends files in jobs and collects the results. An object can be used only once. */
class FileCopier {
  readonly #jobs: MasterApi['jobs'];
  readonly #call: Omit<RunRequest, 'fun' | 'arg'>;
  readonly #context: CommandContext;
  readonly #answers = new Map<string, Answers>();
  #isLeftOutPrinted = false;

  constructor(
    jobs: MasterApi['jobs'],
    call: Omit<RunRequest, 'fun' | 'arg'>,
    context: CommandContext,
  ) {
    this.#jobs = jobs;
    this.#call = call;
    this.#context = context;
  }

  /** Sends all files in one job. The files must be text. */
  async copyWhole({ sources, destination }: CopyRequest): Promise<Answers> {
    const texts = new Map<string, string>();
    for (const source of sources) {
      const text = await readWhole(source);
      if (text !== undefined) texts.set(source, text);
    }
    return this.#run('cp.recv', [texts, destination]);
  }

  /** Sends the files in chunks, each in a separate job. */
  async copyChunks(
    request: CopyRequest,
    chunks: { readonly size: number; readonly isCompressed: boolean },
  ): Promise<Answers> {
    const files = (await Promise.all(request.sources.map(listFiles))).flat();
    const isInto =
      files.length > 1 ||
      files.some(({ mode }) => mode === undefined) ||
      request.destination.endsWith('/');
    for (const { file, mode } of files) {
      const remote = remotePath(file, request, isInto);
      if (mode !== undefined) await this.#copyFile({ file, mode, remote, ...chunks });
    }
    for (const { file, mode } of files) {
      const remote = remotePath(file, request, isInto);
      if (mode !== undefined) continue;
      const answers = await this.#run('cp.recv_chunked', [remote, null]);
      for (const [minion, answer] of answers) this.#record(minion, remote, answer);
    }
    return this.#answers;
  }

  async #copyFile(source: {
    readonly file: string;
    readonly mode: number;
    readonly remote: string;
    readonly size: number;
    readonly isCompressed: boolean;
  }): Promise<void> {
    const { file, mode, remote, size, isCompressed } = source;
    const failed = new Map<string, WireValue>();
    let isFirst = true;
    for await (const chunk of readChunks(file, size)) {
      const packed = isCompressed ? await promisify(gzip)(chunk) : chunk;
      // Pass the arguments by keyword, because a minion interprets positional text that contains an
      // equals sign as a keyword argument.
      const answers = await this.#run('cp.recv_chunked', [], {
        ...{ dest: remote, chunk: packed.toString('base64'), append: !isFirst },
        ...{ compressed: isCompressed, mode },
      });
      // No minion responded, so do not send the remaining chunks.
      if (answers.size === 0) return;
      for (const [minion, answer] of answers) {
        this.#record(minion, remote, answer);
        if (answer !== true && !failed.has(minion)) failed.set(minion, answer);
      }
      isFirst = false;
    }
    for (const [minion, answer] of failed) this.#record(minion, remote, answer);
  }

  #record(minion: string, remote: string, answer: WireValue): void {
    const files = this.#answers.get(minion) ?? new Map<string, WireValue>();
    this.#answers.set(minion, files.set(remote, answer));
  }

  async #begin(published: Extract<JobUpdate, { type: 'published' }>): Promise<void> {
    const { stdout, stderr } = this.#context;
    if (published.minions.length === 0) await printLine(stdout, noMinionsMatched);
    if (this.#isLeftOutPrinted) return;
    this.#isLeftOutPrinted = true;
    await printLeftOut(stderr, published);
  }

  /**
   * Runs a function on the minions and returns their results. The result of a minion that did not
   * return is `false`.
   */
  async #run(fun: string, arg: readonly WireValue[], kwarg: WireMap = {}): Promise<Answers> {
    const answers: Answers = new Map();
    const { interruption } = this.#context;
    for await (const update of this.#jobs.run({ ...this.#call, fun, arg, kwarg }, interruption())) {
      if (update.type === 'published') await this.#begin(update);
      if (update.type === 'return') answers.set(returnerOf(update), update.return);
      if (update.type !== 'finished') continue;
      for (const minion of [...update.silent, ...update.reconnecting]) answers.set(minion, false);
    }
    return answers;
  }
}

/**
 * Reads a file. Returns `undefined` if the file does not exist. Like Salt, the command then skips
 * the file silently.
 */
async function readWhole(file: string): Promise<string | undefined> {
  const found = await stat(file).catch(absentFile);
  if (found === undefined) return undefined;
  if (found.isDirectory()) {
    const text = `${file} is a directory, only files are supported in non-chunked mode. Use "--chunked" command line argument.`;
    throw new CopyStopped(text, exitCodes.failure, false);
  }
  if (found.size > maxWholeBytes) {
    throw new CommandError(
      'ERR_ARGS',
      `${file} has more than ${maxWholeBytes} bytes; use --chunked`,
    );
  }
  const handle = await open(file);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      await handle.readFile(),
    );
  } catch (cause) {
    throw new CommandError('ERR_ARGS', `${file} is not UTF-8 text; use --chunked`, { cause });
  } finally {
    await handle.close();
  }
}

function absentFile(error: unknown): undefined {
  if (errorCodeOf(error) !== 'ENOENT') throw error;
}

/** Returns the file itself. For a directory, returns all files and empty directories below it. */
async function listFiles(source: string): Promise<SourceFile[]> {
  const found = await stat(source).catch(absentFile);
  if (found === undefined)
    throw new CopyStopped(`${source} does not exist`, exitCodes.incomplete, true);
  if (!found.isDirectory()) return [{ file: source, mode: found.mode & 0o7777 }];
  const names = (await readdir(source)).sort();
  if (names.length === 0) return [{ file: source, mode: undefined }];
  const below: SourceFile[] = [];
  for (const name of names) below.push(...(await listFiles(path.join(source, name))));
  return below;
}

/**
 * Returns the path that a file gets on the minions. For a file below a source directory, the path
 * contains the name of that directory and then the file's path within it.
 * @param isInto - whether the destination is a directory. If not, there is only one source file,
 * and the destination is its path on the minions
 */
function remotePath(file: string, { sources, destination }: CopyRequest, isInto: boolean): string {
  if (sources.includes(file)) {
    return isInto ? path.posix.join(destination, path.basename(file)) : destination;
  }
  const source = sources.find((each) => file.startsWith(`${each}/`)) ?? path.dirname(file);
  return path.posix.join(destination, path.basename(source), path.relative(source, file));
}

/**
 * Yields the chunks of a file. An empty file has one empty chunk, so that the minions create the
 * file.
 */
async function* readChunks(file: string, size: number): AsyncGenerator<Buffer, void, void> {
  const handle: FileHandle = await open(file);
  try {
    let length = 0;
    do {
      const buffer = Buffer.alloc(size);
      length = await fill(handle, buffer);
      yield buffer.subarray(0, length);
    } while (length === size);
  } finally {
    await handle.close();
  }
}

/**
 * Reads from a file until the buffer is full.
 * @returns the number of bytes read. It is smaller than the buffer only at the end of the file
 */
async function fill(handle: FileHandle, buffer: Buffer): Promise<number> {
  let length = 0;
  while (length < buffer.length) {
    const { bytesRead } = await handle.read(buffer, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return length;
}

/**
 * Defines `saltbridge salt-cp`, which accepts the flags of Salt's command and prints its output.
 */
export function defineSaltCp(command: Command, context: CommandContext): void {
  command
    .usage('[options] <tgt> <source...> <destination>')
    .argument(
      '[tgt]',
      'target: a glob on minion ids, or an expression of the type that an option selects',
    )
    .argument('[files...]', 'files on this host; the last argument is the path on the minions')
    .addOption(configOption());
  addTargetOptions(command, ['pcre', 'list', 'grain', 'grainPcre', 'nodegroup', 'range'])
    .option('-t, --timeout <seconds>', 'time to wait for returns, in seconds', parseSeconds)
    .option(
      '-C, --chunked',
      'copy in chunks: supports large files, and directories with their content',
    )
    .option('-n, --no-compression', 'do not compress chunks');
  addOutputOptions(command);
  command.addOption(logLevelOption());
  useSaltUsage(command, context.stdout).action(
    async (tgt: string | undefined, files: string[], options: SaltCpOptions) => {
      context.setExitCode(await runSaltCp(command, context, tgt, files, options));
    },
  );
}

async function runSaltCp(
  command: Command,
  context: CommandContext,
  tgt: string | undefined,
  files: readonly string[],
  options: SaltCpOptions,
): Promise<number> {
  const { stdout, stderr } = context;
  const destination = files.at(-1);
  if (tgt === undefined || destination === undefined) {
    await printLine(stdout, command.helpInformation().trimEnd());
    await printLine(stderr, formatSaltUsageError('salt-cp', 'Insufficient arguments'));
    return exitCodes.usage;
  }
  if (options.range === true) throw new CommandError('ERR_ARGS', rangeProblem);
  const sources = await Promise.all(files.slice(0, -1).map(resolvePath));
  try {
    const answers = await copy({ sources, destination }, tgt, options, context);
    const { output, sink } = await chooseOutput(options, context);
    await sink.write(formatData(answers, undefined, output));
    return exitCodes.ok;
  } catch (error) {
    if (!(error instanceof CopyStopped))
      return printSaltFailure(error, 'salt-cp', context, options);
    await printLine(error.isError ? stderr : stdout, error.message);
    return error.exitCode;
  }
}

async function copy(
  request: CopyRequest,
  tgt: string,
  options: SaltCpOptions,
  context: CommandContext,
): Promise<Answers> {
  const { configDir, timeout, chunked, compression } = options;
  const { jobs } = await context.openApi(configDir);
  const call = {
    ...toTarget(tgt, options),
    ...(timeout === undefined ? {} : { timeoutSeconds: timeout }),
    ...sudoUser(),
  };
  const copier = new FileCopier(jobs, call, context);
  if (chunked !== true) return copier.copyWhole(request);
  const { saltCpChunkSize: size } = await context.commandDefaults(configDir);
  return copier.copyChunks(request, { size, isCompressed: compression });
}

/** Resolves the symbolic links in a path. A path that does not exist is returned unchanged. */
function resolvePath(file: string): Promise<string> {
  return realpath(file).catch(() => path.resolve(file));
}
