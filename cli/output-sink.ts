import { appendFile, open } from 'node:fs/promises';
import type { OutputStream } from './context.ts';
import { printLine } from './print.ts';

/** Where returns go: to a stream, or with `--out-file` to a file. */
export interface OutputSink {
  /** Writes a line; an empty one is left out, as Salt leaves out what has no text. */
  write(text: string): Promise<void>;
}

/** Returns on a stream. */
export function streamSink(stream: OutputStream): OutputSink {
  return {
    write: async (text) => {
      if (text !== '') await printLine(stream, text);
    },
  };
}

/** Returns in a file. One that is there is emptied first, unless it is to be continued. */
export async function fileSink(
  file: string,
  { append }: { readonly append: boolean },
): Promise<OutputSink> {
  const handle = await open(file, append ? 'a' : 'w');
  await handle.close();
  return {
    write: async (text) => {
      if (text !== '') await appendFile(file, `${text}\n`);
    },
  };
}
