/**
 * Worker thread that matches regular expressions whose running time has no limit. The main thread
 * terminates it at a deadline.
 */

import { parentPort } from 'node:worker_threads';
import type { SlowQuestion } from './slow-patterns.ts';

parentPort?.on('message', (questions: readonly SlowQuestion[]) => {
  const answers = questions.map(({ source, flags, texts }) => {
    const regex = new RegExp(source, flags);
    return texts.map((text) => {
      regex.lastIndex = 0;
      return regex.test(text);
    });
  });
  parentPort?.postMessage(answers);
});
parentPort?.postMessage('ready');
