/** Worker thread that encodes long values as YAML, one response at a time. */
import { parentPort } from 'node:worker_threads';
import { yamlText } from './yaml-text.ts';

parentPort?.on('message', (json: readonly Uint8Array[]) => {
  parentPort?.postMessage(Buffer.from(yamlText(Buffer.concat(json).toString('utf8'))));
});
parentPort?.postMessage('ready');
