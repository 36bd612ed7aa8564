/** Worker thread for regular expressions that may run for an unlimited time. */

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
