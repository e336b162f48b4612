// Start of the page: theme, the two views, keys.

import { Chat } from './chat.js';
import { byId } from './dom.js';
import { EngineView } from './engine_view.js';
import { startKeyboard } from './keyboard.js';
import { startTheme } from './theme.js';

startTheme();
const chat = new Chat();
const engine = new EngineView(byId('engine-view'));

function showView() {
  const showsEngine = location.hash === '#engine';
  byId('chat-view').hidden = showsEngine;
  byId('engine-view').hidden = !showsEngine;
  byId('settings-button').hidden = showsEngine;
  for (const [id, current] of [['view-chat', !showsEngine], ['view-engine', showsEngine]]) {
    if (current) byId(id).setAttribute('aria-current', 'page');
    else byId(id).removeAttribute('aria-current');
  }
  if (showsEngine) engine.start();
  else engine.stop();
}

window.addEventListener('hashchange', showView);
byId('settings-button').addEventListener('click', () => chat.settings.toggle());
startKeyboard({
  escape: () => (chat.running ? chat.stop() : chat.settings.toggle(false)),
  settings: () => {
    location.hash = '#chat';
    chat.settings.toggle();
  },
  otherView: () => { location.hash = location.hash === '#engine' ? '#chat' : '#engine'; },
});
showView();
chat.findModel().catch(() => {});  // the first message asks again, and says what is wrong
