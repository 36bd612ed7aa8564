/**
 * Master of a site or a centre in a process of its own, so that a test can kill it. The argument
 * contains the options as JSON. Prints the port of the HTTP API when the master serves, or 0.
 */

import { createMasterServer } from '#server';

const options: Parameters<typeof createMasterServer>[0] = JSON.parse(process.argv[2] ?? '{}');
const server = await createMasterServer(options);
await server.start();
process.stdout.write(`${server.httpAddress?.port ?? 0}\n`);
