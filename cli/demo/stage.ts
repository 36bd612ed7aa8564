/** Where the demonstration shows itself: plain lines, with titles that stand out on a terminal. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Writable } from 'node:stream';
import type { MasterConfig } from '../../master/index.ts';

/** The demonstration's way out. */
export interface Stage {
  title(text: string): void;
  line(text: string): void;
  /** Lets other commands reach the master, by a configuration in its folder. */
  keepConfig(
    config: MasterConfig,
    ports: { readonly requestPort: number; readonly publishPort: number },
  ): Promise<void>;
  /** Says what to try next; on a terminal waits until the reader has had enough. */
  farewell(directory: string, config: MasterConfig): Promise<void>;
}

/** @param untilInterrupted resolves when a reader at a terminal ends the demonstration */
export function createStage(
  out: Writable & { readonly isTTY?: boolean },
  untilInterrupted: () => Promise<void>,
): Stage {
  const isTerminal = out.isTTY === true;
  const line = (text: string): void => {
    out.write(`  ${text}\n`);
  };
  const title = (text: string): void => {
    out.write(isTerminal ? `\n\u001b[1m${text}\u001b[0m\n` : `\n${text}\n`);
  };
  return {
    title,
    line,
    keepConfig: async (config, { requestPort, publishPort }) => {
      const options = {
        id: config.id,
        interface: config.interface,
        ret_port: requestPort,
        publish_port: publishPort,
        pki_dir: config.pkiDir,
        cachedir: config.cachedir,
        sock_dir: config.sockDir,
        saltbridge: { state_dir: config.stateDir, socket: config.socket },
      };
      await writeFile(path.join(config.rootDir, 'master'), `${JSON.stringify(options, null, 2)}\n`);
    },
    farewell: async (directory) => {
      title('What to try next');
      if (isTerminal) {
        line('This master runs until you press Ctrl-C. In another terminal:');
        line(`  bin/saltbridge salt -c ${directory} '*' test.ping`);
        line(`  bin/saltbridge key list -c ${directory}`);
        line(`  bin/saltbridge events -c ${directory}`);
        await untilInterrupted();
        return;
      }
      line('bin/saltbridge master -c DIR     a master with the configuration in DIR/master');
      line("bin/saltbridge salt '*' test.ping");
      line('The README has ten lines for each kind of user.');
    },
  };
}
